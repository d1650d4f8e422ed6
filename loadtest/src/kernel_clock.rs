//! When bytes arrived, as the kernel noted it while it received them: on loopback that is in the
//! sender's own call. What delays the generator after that does not count.

use std::io::{self, IoSliceMut};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime};

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt::ReceiveTimestampns,
};
use nix::sys::time::TimeSpec;

/// A time of the clock by which the kernel notes when packets arrive (SO_TIMESTAMPNS, socket(7)).
#[derive(Clone, Copy, Debug)]
pub struct KernelTime(Duration);

impl KernelTime {
    /// The present time.
    pub fn now() -> KernelTime {
        let since_epoch = SystemTime::UNIX_EPOCH.elapsed();
        KernelTime(since_epoch.expect("the clock is past 1970"))
    }

    /// Time since `earlier`; zero if the clock was set back meanwhile.
    pub fn since(self, earlier: KernelTime) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Has the kernel note when what arrives from now on does.
pub fn note_arrivals(stream: &TcpStream) -> io::Result<()> {
    Ok(setsockopt(stream, ReceiveTimestampns, &true)?)
}

/// Reads, and says when the last of the bytes arrived.
pub fn receive(stream: &impl AsRawFd, bytes: &mut [u8]) -> io::Result<(usize, Option<KernelTime>)> {
    let mut control = nix::cmsg_space!(TimeSpec);
    let mut parts = [IoSliceMut::new(bytes)];
    let message = recvmsg::<()>(
        stream.as_raw_fd(),
        &mut parts,
        Some(&mut control),
        MsgFlags::empty(),
    )?;
    let arrived_at = message.cmsgs()?.find_map(|part| match part {
        ControlMessageOwned::ScmTimestampns(time) => Some(KernelTime(Duration::from(time))),
        _ => None,
    });
    Ok((message.bytes, arrived_at))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_waits_to_be_read_has_arrived_before() {
        let wait = Duration::from_millis(100);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut sender, _) = listener.accept().unwrap();
        note_arrivals(&receiver).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let sent = KernelTime::now();
            sender.write_all(b"answer").unwrap();
            while KernelTime::now().since(sent) < wait {
                std::thread::yield_now();
            }
            let (count, arrived) = receive(&receiver, &mut [0; 100]).unwrap();
            assert_eq!(count, 6);
            // The kernel begins a moment after the first socket asked for it.
            if let Some(arrived) = arrived {
                assert!(arrived.since(sent) < wait, "{:?}", arrived.since(sent));
                return;
            }
            assert!(Instant::now() < deadline, "no arrival is noted");
        }
    }
}
