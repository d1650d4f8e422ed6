//! What can happen to a server. Whatever it is: what needs the database is answered in time, all else
//! goes on, health says what is the matter while it lasts, and all heals without a restart.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::rig::{
    PATIENCE, assert_unavailable, configure, database_alone, declare, delete, end_sessions,
    end_sessions_by, in_time, plan_on, wait_until_away, wait_until_connected, wait_until_degraded,
    wait_until_stored,
};
use crate::support::home::signal;
use crate::support::poll::step;
use crate::support::setup::in_parallel;
use crate::support::{Broker, Database, Queue, eventually_within};
use crate::traffic::with_traffic;

/// A broker, its database on a server of its own, and a queue that is declared.
struct Scene {
    broker: Broker,
    database: Database,
    declared: String,
}

impl Scene {
    fn begin() -> Scene {
        let database = database_alone();
        let broker = plan_on(&database).start();
        wait_until_connected(&broker);
        let queue = broker.queue("declared");
        declare(&queue, json!({"maxLength": 7}));
        let declared = queue.name.clone();
        Scene {
            broker,
            database,
            declared,
        }
    }

    /// Lets it happen under traffic, and waits until a change is stored again.
    #[track_caller]
    fn play(&self, event: impl FnOnce(&Queue)) {
        with_traffic(&self.broker, &self.declared, || {
            let queue = self.broker.queue_named(&self.declared);
            event(&queue);
            wait_until_stored(&queue, &json!({"maxLength": 9}));
            wait_until_connected(&self.broker);
        });
        let question = "SELECT options FROM queen.ephemeral_queue WHERE queue = $1";
        let row = self
            .database
            .client()
            .query_one(question, &[&self.declared])
            .expect("it is stored");
        assert_eq!(row.get::<_, String>(0), r#"{"maxLength":9}"#);
        let next = self.broker.queue("next");
        declare(&next, json!({}));
        assert_eq!(next.delete(), (true, true));
    }
}

/// Changes while something happens: each is stored or refused in time.
#[track_caller]
fn change(queue: &Queue, scene: &Scene) {
    let answer = configure(queue, json!({"maxLength": 8}));
    if answer.status != 201 {
        assert_unavailable(&answer);
    }
    let other = scene.broker.queue("passing");
    let answer = configure(&other, json!({}));
    if answer.status == 201 {
        let answer = delete(&other);
        if answer.status != 200 {
            assert_unavailable(&answer);
        }
    } else {
        assert_unavailable(&answer);
    }
}

#[test]
fn a_server_that_hangs_is_answered_for_in_time_and_waited_for() {
    let scene = Scene::begin();
    scene.play(|queue| {
        scene.database.server().hang();
        for _ in 0..2 {
            assert_unavailable(&configure(queue, json!({"maxLength": 8})));
        }
        assert_unavailable(&delete(queue));
        wait_until_away(&scene.broker);
        scene.database.server().go_on();
    });
}

#[test]
fn a_postmaster_that_hangs_disturbs_no_session_that_is_there() {
    let scene = Scene::begin();
    scene.play(|queue| {
        scene.database.server().hang_postmaster();
        configure(queue, json!({"maxLength": 8})).expect(201);
        assert_eq!(crate::rig::health(&scene.broker)["status"], "healthy");
        scene.database.server().go_on();
    });
}

#[test]
fn a_session_that_hangs_is_replaced() {
    let scene = Scene::begin();
    let hung = scene.database.sessions();
    assert!(!hung.is_empty(), "the broker has a session");
    scene.play(|queue| {
        hung.iter().for_each(|&pid| signal(pid, Signal::STOP));
        change(queue, &scene);
        // Nobody lets them go on.
        wait_until_stored(queue, &json!({"maxLength": 10}));
        wait_until_connected(&scene.broker);
    });
    hung.iter().for_each(|&pid| signal(pid, Signal::CONT));
}

#[test]
fn each_session_alone_may_hang() {
    let scene = Scene::begin();
    for index in 0..scene.database.sessions().len() {
        let mut sessions = scene.database.sessions();
        sessions.sort_unstable();
        let Some(&pid) = sessions.get(index) else {
            break;
        };
        scene.play(|queue| {
            signal(pid, Signal::STOP);
            change(queue, &scene);
            wait_until_stored(queue, &json!({"maxLength": 10}));
        });
        signal(pid, Signal::CONT);
    }
}

#[test]
fn a_server_that_is_restarted_is_found_again() {
    let scene = Scene::begin();
    scene.play(|queue| {
        scene.database.server().stop();
        change(queue, &scene);
        wait_until_away(&scene.broker);
        scene.database.server().start_again();
    });
}

#[test]
fn a_server_that_is_restarted_without_a_checkpoint_is_found_again() {
    let scene = Scene::begin();
    scene.play(|queue| {
        scene.database.server().stop_immediately();
        change(queue, &scene);
        scene.database.server().start_again();
    });
}

#[test]
fn a_server_that_is_killed_is_found_again_and_has_what_was_answered() {
    let scene = Scene::begin();
    let before = scene.broker.queue("before");
    declare(&before, json!({"maxLength": 5}));
    scene.play(|queue| {
        scene.database.server().kill();
        change(queue, &scene);
        wait_until_away(&scene.broker);
        scene.database.server().start_again();
    });
    let question = "SELECT options FROM queen.ephemeral_queue WHERE queue = $1";
    let row = scene
        .database
        .client()
        .query_one(question, &[&before.name])
        .expect("it is stored");
    assert_eq!(row.get::<_, String>(0), r#"{"maxLength":5}"#);
}

#[test]
fn sessions_that_are_ended_one_by_one_all_the_time_are_replaced() {
    let scene = Scene::begin();
    scene.play(|queue| {
        let end = Instant::now() + Duration::from_secs(2);
        let mut client = scene.database.client();
        let ends = "SELECT pg_terminate_backend($1)";
        while Instant::now() < end {
            for pid in scene.database.sessions() {
                let row = client.query_one(ends, &[&pid.cast_signed()]);
                row.expect("an answer");
                step();
            }
            change(queue, &scene);
        }
    });
}

#[test]
fn a_lock_that_somebody_holds_is_answered_for_in_time() {
    let scene = Scene::begin();
    scene.play(|queue| {
        let mut somebody = scene.database.client();
        somebody
            .batch_execute("BEGIN; LOCK TABLE queen.ephemeral_queue, queen.revision")
            .expect("a lock");
        assert_unavailable(&configure(queue, json!({"maxLength": 8})));
        wait_until_degraded(&scene.broker);
        assert_unavailable(&delete(queue));
        somebody.batch_execute("ROLLBACK").expect("it lets go");
    });
}

/// Each of them is a transaction of its own, and each waits for the lock as long as it may.
#[test]
fn many_switches_behind_a_lock_are_all_answered_in_time() {
    let scene = Scene::begin();
    let mut somebody = scene.database.client();
    somebody
        .batch_execute("BEGIN; LOCK TABLE queen.switch, queen.revision")
        .expect("a lock");
    let switch = |enabled: bool| {
        let mut client = scene.broker.plain_client();
        let body = json!({"enabled": enabled});
        in_time("switch", || client.post("/api/v1/system/ephemeral", &body)).expect(200)
    };
    in_parallel(
        &[false, true, false, true, false, true, false],
        |&enabled| {
            assert_eq!(switch(enabled)["mirrored"], false);
        },
    );
    somebody.batch_execute("ROLLBACK").expect("it lets go");
    eventually_within(PATIENCE, "the switch is stored again", || {
        switch(true)["mirrored"] == true
    });
    declare(&scene.broker.queue("next"), json!({}));
}

/// Whoever is at fault is looked for, which must not hold up the others.
#[test]
fn changes_that_a_slow_trigger_refuses_are_answered_in_time_and_so_are_the_others() {
    let scene = Scene::begin();
    scene.database.execute(
        "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN PERFORM pg_catalog.pg_sleep(0.7); RAISE EXCEPTION 'not this one'; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON queen.ephemeral_queue FOR EACH ROW
         WHEN (NEW.queue LIKE 'refused%') EXECUTE FUNCTION public.refuse()",
    );
    let names: Vec<&str> = ["refused", "taken"].repeat(10);
    scene.play(|_| {
        in_parallel(&names, |name| {
            let answer = configure(&scene.broker.queue(name), json!({}));
            match answer.status {
                201 => assert_eq!(*name, "taken"),
                500 => assert_eq!(*name, "refused"),
                _ => assert_unavailable(&answer),
            }
        });
    });
}

#[test]
fn a_session_that_the_server_ends_when_it_idles_is_not_one_of_the_brokers() {
    let scene = Scene::begin();
    let name = scene.database.name();
    // The limit is for sessions that begin after it.
    let mut client = scene.database.client();
    // Less than the broker's pause between two looks.
    let limit = format!("ALTER DATABASE {name} SET idle_session_timeout = 20");
    scene.database.execute(&limit);
    end_sessions_by(&mut client, &scene.database);
    wait_until_stored(&scene.broker.queue("again"), &json!({}));
    let opened = || scene.broker.sample("queen_engine_sessions_total");
    let (before, end) = (opened(), Instant::now() + Duration::from_secs(2));
    while Instant::now() < end {
        step();
    }
    assert_eq!(opened(), before);
}

#[test]
fn a_server_that_only_reads_is_degraded_until_it_writes_again() {
    let scene = Scene::begin();
    let database = &scene.database;
    scene.play(|queue| {
        let name = database.name();
        // Asks once and for all new sessions.
        database.execute(&format!(
            "ALTER DATABASE {name} SET default_transaction_read_only = on"
        ));
        end_sessions(database);
        assert_unavailable(&configure(queue, json!({"maxLength": 8})));
        let reason = wait_until_degraded(&scene.broker);
        assert!(reason.contains("read-only"), "{reason}");
        let mut client = database.client();
        let reset = format!("ALTER DATABASE {name} RESET default_transaction_read_only");
        for statement in ["SET default_transaction_read_only = off", &reset] {
            client.batch_execute(statement).expect("it writes");
        }
        end_sessions(database);
    });
}
