//! The plans of the hot statements, taken from the broker's own sessions: every look into a table is by
//! the whole key that it names, or by where a row lies, whatever the table held when the plan was made.

use queen::postgres::Session;
use queen::postgres::durable::{Batch, Committed, Range};

use super::rig::{Rig, START_US, append, dead_letter, moved, segment, tail};
use crate::sessions::server::Database;
use crate::sessions::store::TENANT;

/// From now on new sessions of the database log the plan of each statement, those in functions too.
fn log_plans(database: &Database) {
    let name = &database.name;
    database.run(&format!(
        "ALTER DATABASE {name} SET session_preload_libraries = 'auto_explain';
         ALTER DATABASE {name} SET auto_explain.log_min_duration = 0;
         ALTER DATABASE {name} SET auto_explain.log_nested_statements = on;
         ALTER DATABASE {name} SET auto_explain.log_verbose = on"
    ));
}

/// The plans that the server has logged for a database so far.
fn plans(database: &Database) -> Vec<String> {
    let begin = format!("{}|LOG:  duration: ", database.name);
    let log = database.server.log();
    let mut plans: Vec<String> = Vec::new();
    let mut inside = false;
    for line in log.lines() {
        if line.starts_with('\t') {
            if inside && let Some(plan) = plans.last_mut() {
                plan.push_str(line);
                plan.push('\n');
            }
        } else {
            inside = line.starts_with(&begin) && line.ends_with("plan:");
            if inside {
                plans.push(String::new());
            }
        }
    }
    plans
}

/// What is wrong with a plan of a hot statement.
fn fault(plan: &str) -> Option<String> {
    let lines: Vec<&str> = plan.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        let is_scan =
            line.contains("(cost=") && line.contains("Scan") && line.contains(" on queen.");
        // Whatever is left is swept in the order of the key, from its beginning; and there are as many
        // rows of brokers as there are brokers.
        let is_short = ["using durable_leftover_pkey", " on queen.broker"];
        if !is_scan || is_short.iter().any(|known| line.contains(known)) {
            continue;
        }
        // Its conditions stand up to the next node.
        let own = lines[number + 1..]
            .iter()
            .take_while(|line| !line.contains("(cost="));
        let says = |text: &str| own.clone().any(|line| line.contains(text));
        let is_looked_up = (line.contains("Index") && says("Index Cond:"))
            || (line.contains("Tid Scan") && says("TID Cond:"));
        // A column of a key that is only filtered by was not looked up with.
        let keys = ["group_id =", "partition_id =", "base_offset ="];
        let by_whole_key = own
            .clone()
            .filter(|line| line.contains("Filter:"))
            .all(|line| keys.iter().all(|key| !line.contains(key)));
        if !is_looked_up || !by_whole_key {
            return Some(format!("{line} in\n{plan}"));
        }
    }
    let joined = ["Hash Join", "Merge Join"];
    let join = joined.iter().find(|join| plan.contains(**join));
    join.map(|join| format!("{join} in\n{plan}"))
}

/// What an engine does all the time.
fn work(session: &mut Session, ids: &[i64], group: i64, with_rows: bool) {
    let (rows, cursors) = session.refresh_partitions(ids).expect("rows");
    let version = |id: i64| {
        let row = cursors.iter().find(|row| row.partition_id == id);
        row.map_or(0, |row| row.version)
    };
    assert_eq!(with_rows, !cursors.is_empty());
    let batch = Batch {
        tails: rows
            .iter()
            .map(|row| tail(row.id, row.next_offset))
            .collect(),
        segments: rows
            .iter()
            .map(|row| segment(row.id, row.next_offset, 2))
            .collect(),
        cursors: ids
            .iter()
            .map(|&id| moved(group, id, version(id), 1))
            .collect(),
        dead_letters: vec![dead_letter(1, ids[0], 0)],
        ..Batch::default()
    };
    let appends = Batch {
        tails: rows
            .iter()
            .map(|row| tail(row.id, row.next_offset + 2))
            .collect(),
        segments: rows
            .iter()
            .map(|row| segment(row.id, row.next_offset + 2, 1))
            .collect(),
        ..Batch::default()
    };
    let moves = Batch {
        cursors: ids
            .iter()
            .map(|&id| moved(group, id, version(id) + 1, 2))
            .collect(),
        ..Batch::default()
    };
    // The two forms that most batches have are stored by functions of their own.
    for batch in [batch, appends, moves] {
        let committed = session.commit_batch(&batch).expect("stored");
        assert_eq!(committed, Committed::Stored);
    }
    let asked: Vec<Range> = rows
        .iter()
        .map(|row| Range {
            partition_id: row.id,
            from: row.next_offset.max(1) - 1,
            to: row.next_offset + 2,
        })
        .collect();
    assert!(!session.read_segments(&asked).expect("segments").is_empty());
    assert!(
        !session
            .read_hashes(ids[0], START_US, 0)
            .expect("ids")
            .is_empty()
    );
    session.find_partition(ids[0]).expect("a look");
    session.find_home(group).expect("a look");
    let lease = uuid::Uuid::nil();
    session.find_leased(TENANT, lease, group).expect("a look");
    session.sweep_leftovers(10).expect("a step");
}

/// Checks the plans since the last time; there must be some of each table.
#[track_caller]
fn check(database: &Database, seen: &mut usize, when: &str) {
    let all = plans(database);
    let new = &all[*seen..];
    *seen = all.len();
    for part in [
        "Index Scan Backward using durable_segment_pkey on queen.durable_segment",
        "Insert on queen.durable_segment",
        "Update on queen.durable_cursor",
        "using durable_cursor_pkey on queen.durable_cursor",
        "using durable_partition_pkey on queen.durable_partition",
    ] {
        assert!(
            new.iter().any(|plan| plan.contains(part)),
            "{when}: no plan with {part}"
        );
    }
    // Generic plans show parameters, others their values.
    let inserts = new
        .iter()
        .filter(|plan| plan.contains("Insert on queen.durable_segment"));
    for plan in inserts {
        assert!(plan.contains("unnest($"), "{when}: not generic: {plan}");
    }
    let faults: Vec<String> = new.iter().filter_map(|plan| fault(plan)).collect();
    assert!(faults.is_empty(), "{when}: {}", faults.join("\n"));
}

#[test]
fn hot_statements_use_indexes_whatever_the_tables_held_when_they_were_planned() {
    let (mut rig, ids) = Rig::with_partitions(40);
    let (group, queue_id) = rig.register("workers");
    log_plans(&rig.database);
    // Planned while the tables are known to be nearly empty.
    let tables = "queen.durable_queue, queen.durable_partition, queen.durable_segment,
                  queen.durable_group, queen.durable_cursor, queen.dead_letter";
    rig.database.run(&format!("VACUUM ANALYZE {tables}"));
    let mut session = rig.database.open();
    let mut seen = plans(&rig.database).len();
    work(&mut session, &ids, group, false);
    // Only now is there a place that can be moved.
    work(&mut session, &ids, group, true);
    check(&rig.database, &mut seen, "empty");

    // The same plans, with 10,000 partitions.
    rig.database.run(&format!(
        "INSERT INTO queen.durable_partition (id, queue_id, name, created_us)
         SELECT -number, {queue_id}, 'p' || number, 1 FROM generate_series(1, 10000) AS number;
         INSERT INTO queen.durable_segment
         SELECT -number, base, 1, 1, '', repeat('x', 200)::bytea
         FROM generate_series(1, 10000) AS number, generate_series(0, 4) AS base;
         INSERT INTO queen.durable_cursor
         SELECT {group}, -number, 1, 0, 0, 0, 0, 0, 0, 0, 0, NULL
         FROM generate_series(1, 10000) AS number"
    ));
    seen = plans(&rig.database).len();
    work(&mut session, &ids, group, true);
    check(&rig.database, &mut seen, "filled");

    // Planned anew, by what is known of full tables; by an old session and a new one.
    rig.database.run(&format!("VACUUM ANALYZE {tables}"));
    seen = plans(&rig.database).len();
    work(&mut session, &ids, group, true);
    check(&rig.database, &mut seen, "analyzed");
    let mut session = rig.database.open();
    seen = plans(&rig.database).len();
    work(&mut session, &ids, group, true);
    check(&rig.database, &mut seen, "new session");
    // Some of many.
    let some: Vec<i64> = (1..=10_000).step_by(50).map(|number| -number).collect();
    work(&mut session, &some, group, true);
    check(&rig.database, &mut seen, "others");
    assert_eq!(rig.tail_of(some[3]), 8);
    assert!(session.commit_batch(&append(some[3], 8, 1)).is_ok());
}
