//! The one seam to an I/O runtime: listen, read, write, wait until readable, sleep, spawn; owned
//! buffers everywhere. One runtime per thread. Knows neither HTTP nor queues.
//!
//! Wakers of one thread must not be used on another: what comes from outside arrives on a
//! descriptor ([`Doorbell`]).
//!
//! monoio on io_uring or epoll is always there, glommio with the cargo feature of its name.

mod bell;
mod clock;
mod doorbell;
mod driver;
#[cfg(feature = "glommio")]
mod glommio;
mod listener;
mod look;
mod notify;
mod stream;
mod timer;
mod turn;
mod watched;

pub use bell::Bell;
pub use clock::now;
pub use doorbell::Doorbell;
pub use driver::{Choice, Driver, IoChoice, RuntimeFault, run, spawn};
pub use listener::Listener;
pub use look::look;
pub use notify::Notify;
pub use stream::Stream;
pub use timer::{sleep, sleep_until};
pub use turn::next_turn;
