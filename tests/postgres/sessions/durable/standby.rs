//! A commit that no standby confirms must not be taken for stored, whoever ends the wait for it.

use std::time::Duration;

use queen::postgres::durable::{Batch, Committed};
use queen::postgres::{Session, SessionFault};

use super::rig::{Rig, append};
use crate::poll::eventually_within;
use crate::sessions::server::{Database, Server, away};

/// From when on no commit is confirmed.
fn ask_for_a_standby(database: &Database) {
    let mut tool = database.client();
    let wait = "ALTER SYSTEM SET synchronous_standby_names = 'nobody'";
    tool.batch_execute(wait).expect("set");
    tool.batch_execute("SELECT pg_reload_conf()").expect("read");
}

const WAITING: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'queen' AND
                       datname = current_database() AND wait_event = 'SyncRep'";

/// Appends until a commit waits for the standby; what `meanwhile` does does not end the wait well.
fn waits(
    database: &Database,
    session: &mut Session,
    partition_id: i64,
    meanwhile: impl FnOnce(),
) -> Result<Committed, SessionFault> {
    let mut tail = 0;
    std::thread::scope(|scope| {
        let appending = scope.spawn(move || {
            loop {
                let batch: Batch = append(partition_id, tail, 1);
                match session.commit_batch(&batch) {
                    // The setting is not in force yet.
                    Ok(Committed::Stored) if tail < 100_000 => tail += 1,
                    other => return other,
                }
            }
        });
        let limit = Duration::from_secs(20);
        eventually_within(limit, "a commit waits for a standby", || {
            appending.is_finished() || database.value(WAITING) == "1"
        });
        meanwhile();
        appending.join().expect("an outcome")
    })
}

#[test]
fn a_batch_that_no_standby_confirms_is_not_known_to_be_stored() {
    let server = Server::own();
    let (mut rig, ids) = Rig::with_partitions_on(server.database(), 2);
    ask_for_a_standby(&rig.database);
    // Nobody ends the wait: the broker's own bound does.
    let outcome = waits(&rig.database, &mut rig.session, ids[0], || {});
    let reason = away(outcome);
    assert!(reason.contains("did not answer"), "{reason}");
    // Somebody does. The server warns, and reports the commit as if it were one.
    let mut session = rig.database.open();
    let outcome = waits(&rig.database, &mut session, ids[1], || {
        let cancelled = "SELECT bool_or(pg_cancel_backend(pid)) FROM pg_stat_activity
                         WHERE application_name = 'queen' AND wait_event = 'SyncRep'";
        assert_eq!(rig.database.value(cancelled), "true");
    });
    let reason = away(outcome);
    assert!(reason.contains("standby"), "{reason}");
    assert_eq!(away(session.commit_batch(&append(ids[1], 0, 1))), reason);
    // It is there all the same: not known is not the same as not stored.
    assert!(
        rig.database
            .open()
            .refresh_partitions(&ids)
            .expect("rows")
            .0
            .iter()
            .all(|row| row.next_offset > 0)
    );
}
