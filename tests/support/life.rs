//! The ends that a broker's life may have, and who serves after it.

use super::{Broker, Plan};

/// How a broker's life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// SIGTERM, then a start on the same port.
    CleanExit,
    /// `kill -9`, then a start on the same port.
    Crash,
    /// The next broker is started on another port before this one is stopped.
    Deploy,
    /// `kill -9` while another broker on the same database is there already.
    Failover,
}

pub(crate) const ENDS: [End; 4] = [End::CleanExit, End::Crash, End::Deploy, End::Failover];

/// A broker whose end comes, and whoever stands by.
#[derive(Debug)]
pub(crate) struct Life {
    end: End,
    plan: Plan,
    pub(crate) broker: Broker,
    standby: Option<Broker>,
}

impl Life {
    pub(crate) fn begin(end: End, plan: Plan) -> Life {
        Life {
            broker: plan.clone().start(),
            standby: (end == End::Failover).then(|| plan.clone().start()),
            end,
            plan,
        }
    }

    /// Ends it; the broker that serves from now on.
    #[track_caller]
    pub(crate) fn end(self) -> Broker {
        match self.end {
            End::CleanExit => {
                self.broker.terminate();
                self.broker.start_again()
            }
            End::Crash => {
                self.broker.kill();
                self.broker.start_again()
            }
            End::Deploy => {
                let next = self.plan.start();
                self.broker.terminate();
                next
            }
            End::Failover => {
                self.broker.kill();
                self.standby.expect("it was started before")
            }
        }
    }
}
