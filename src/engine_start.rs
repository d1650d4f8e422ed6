//! Starting the engine, and waiting for what it loads.

use std::sync::Arc;

use queen::config::{Config, DatabaseChoice, ServerSettings};
use queen::core_loop::{
    EngineLine, EngineParts, EngineThread, ReaderLine, ReaderParts, ReaderThread, Readiness,
};
use queen::engine::{
    DurableRules, EnginePlan, ReaderPlan, RetentionPlan, Seal, Source, SpoolPlan, Whereabouts,
};
use queen::fatal::Fatal;
use queen::limits;
use queen::model::durable::Start;
use queen::postgres::{
    ClusterPlan, ProgramSearch, ServerRules, Target, TargetSettings, default_data_folder,
    find_programs,
};
use queen::shutdown::StopSignals;

use super::{Shared, system};

/// Starts the engine where there is to be a database; the shard cores get a line to it.
pub(super) fn start(
    config: &Config,
    shared: &mut Shared,
) -> Result<Option<(EngineThread, ReaderThread)>, Fatal> {
    let source = match &config.durable.choice {
        DatabaseChoice::Off { why } => {
            tracing::info!("no database: {why}");
            return Ok(None);
        }
        DatabaseChoice::Server(settings) => {
            let target = Target::parse(&target_settings(settings));
            let target = target.map_err(|faults| Fatal::Configuration { faults })?;
            tracing::info!("the database is {target}");
            Source::Server(Box::new(target))
        }
        DatabaseChoice::Private => Source::Private(cluster_plan(config)?),
    };
    let (sender, inbox) = crossbeam_channel::bounded(limits::ENGINE_JOBS_MAX);
    shared.engine_line = Some(EngineLine::new(sender, Arc::clone(&shared.engine)));
    let server = Arc::new(Whereabouts::default());
    let reader = start_reader(config, shared, &server)?;
    let parts = EngineParts {
        plan: EnginePlan {
            source,
            rules: ServerRules {
                allow_fsync_off: config.durable.allow_fsync_off,
            },
            incarnation: format!("{:x}", shared.incarnation.0),
            name: broker_name(config),
            status: Arc::clone(&shared.engine),
            durable: durable_rules(config),
            spool: spool_plan(config),
            retention: retention_plan(config),
            server,
        },
        inbox,
        cpus: config.server.engine_cpus.clone(),
        port: shared.ports.pop().expect("the engine has a port"),
        bells: shared.bells.clone(),
        directory: Arc::clone(&shared.directory),
        serving: Arc::clone(&shared.serving),
    };
    let engine = EngineThread::start(parts).map_err(system("starting the engine's thread"))?;
    Ok(Some((engine, reader)))
}

/// Starts the reader; the shard cores get a line to it.
fn start_reader(
    config: &Config,
    shared: &mut Shared,
    server: &Arc<Whereabouts>,
) -> Result<ReaderThread, Fatal> {
    let (sender, inbox) = crossbeam_channel::bounded(limits::QUESTIONS_MAX);
    shared.reader_line = Some(ReaderLine::new(sender));
    let plan = ReaderPlan {
        rules: ServerRules {
            allow_fsync_off: config.durable.allow_fsync_off,
        },
        incarnation: format!("{:x}", shared.incarnation.0),
        server: Arc::clone(server),
        status: Arc::clone(&shared.engine),
        retention: retention_plan(config),
        seal: seal(config),
    };
    let parts = ReaderParts {
        plan,
        inbox,
        // A shard that polls must not share its CPU with a listing.
        cpus: config.server.engine_cpus.clone(),
        port: shared.ports.pop().expect("the reader has a port"),
        bells: shared.bells.clone(),
    };
    ReaderThread::start(parts).map_err(system("starting the reader's thread"))
}

/// Waits until the engine has loaded what the listener is to open with; false if a signal came first.
pub(super) fn wait(
    engine: &EngineThread,
    config: &Config,
    signals: &mut StopSignals,
) -> Result<bool, Fatal> {
    let is_private = config.durable.choice == DatabaseChoice::Private;
    match engine.wait(is_private, || !signals.have_come()) {
        Readiness::Loaded => Ok(true),
        Readiness::Away => {
            tracing::warn!("the database does not answer: the broker opens without it");
            Ok(true)
        }
        Readiness::BrokenOff => Ok(false),
        Readiness::FolderUnusable(fault) => Err(Fatal::ClusterUnusable {
            text: fault.to_string(),
        }),
        Readiness::ServerRefused(text) => Err(Fatal::ServerUnusable { text }),
    }
}

fn seal(config: &Config) -> Seal {
    let key = config.durable.encryption_key.as_ref();
    key.map_or_else(Seal::default, |key| Seal::new(key.expose()))
}

fn durable_rules(config: &Config) -> DurableRules {
    DurableRules {
        seal: seal(config),
        default_start: match config.durable.starts_at_oldest {
            true => Start::All,
            false => Start::New,
        },
    }
}

fn spool_plan(config: &Config) -> SpoolPlan {
    let durable = &config.durable;
    let beside = || {
        let folder = durable.data_folder.clone();
        folder.unwrap_or_else(default_data_folder).join("spool")
    };
    SpoolPlan {
        folder: durable.spool_folder.clone().unwrap_or_else(beside),
        bytes_max: durable.spool_bytes_max,
    }
}

fn retention_plan(config: &Config) -> RetentionPlan {
    RetentionPlan {
        interval: config.durable.retention_interval,
        rows_max: config.durable.retention_rows,
        idle: config.durable.partition_idle,
    }
}

fn target_settings(settings: &ServerSettings) -> TargetSettings {
    let exposed = |secret: &Option<queen::config::Secret>| {
        secret.as_ref().map(|secret| secret.expose().to_owned())
    };
    TargetSettings {
        database_url: exposed(&settings.database_url),
        host: settings.host.clone(),
        port: settings.port.clone(),
        user: settings.user.clone(),
        password: exposed(&settings.password),
        database: settings.database.clone(),
        ssl_mode: settings.ssl_mode.clone(),
        ssl_root_cert: settings.ssl_root_cert.clone(),
    }
}

fn cluster_plan(config: &Config) -> Result<ClusterPlan, Fatal> {
    let fatal = |text: String| Fatal::ClusterUnusable { text };
    let folder = config.durable.data_folder.clone();
    let search = find_programs(config.durable.programs_folder.as_deref());
    match search.map_err(|fault| fatal(fault.to_string()))? {
        ProgramSearch::Found(programs) => Ok(ClusterPlan::new(
            folder.unwrap_or_else(default_data_folder),
            programs,
        )),
        ProgramSearch::NotFound { .. } => Err(fatal(
            "PostgreSQL's programs were there a moment ago and are gone".to_owned(),
        )),
    }
}

/// How other brokers on the database are told of this one: the same after a restart.
fn broker_name(config: &Config) -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    match config.server.port {
        0 => format!("{host} (process {})", std::process::id()),
        port => format!("{host}:{port}"),
    }
}
