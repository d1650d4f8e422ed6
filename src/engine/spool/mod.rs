//! Pushes that were accepted while PostgreSQL did not answer. They lie in files until they are stored:
//! an answer `buffered` is given once the disk has them (fsync), and survives whatever the process does.
//!
//! Entries are numbered without a gap. How far they are stored stands in the database, changed in the
//! same commit that stores them, so that none is stored twice whenever the broker dies.
//!
//! ```text
//! file      "QSPOOL1\n", u64 number of the first entry, entries
//! entry     u32 length of the rest, u32 CRC-32 of it, rest
//! ```
//! The last entry of the last file may be torn: the process died before anybody was answered, and it is
//! left out.

mod entry;
#[cfg(test)]
pub(super) use entry::test;

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use uuid::Uuid;

pub(super) use self::entry::Entry;
use crate::limits::{SPOOL_ENTRY_BYTES_MAX, SPOOL_FILE_BYTES, SPOOL_LOCK_MS};

const MAGIC: &[u8; 8] = b"QSPOOL1\n";
const HEADER_BYTES: u64 = 16;
const IDENTITY: &str = "identity";

/// Why something could not be spooled. Nothing of it was.
#[derive(Debug, thiserror::Error)]
pub(super) enum SpoolFault {
    /// There is no room for it.
    #[error("the spool holds as much as it may ({bytes_max} bytes)")]
    Full {
        /// Bytes that it may hold.
        bytes_max: u64,
    },
    /// An entry is encrypted and cannot be read.
    #[error("entry {number} of the spool {text}; it and what follows wait until then")]
    Unopened {
        /// Its number.
        number: u64,
        /// Why, and what to do.
        text: &'static str,
    },
    /// The database has stored more of it than was ever in it.
    #[error(
        "the spool is an older copy of one of which the database has stored {stored} entries: move its \
         folder away and start the broker again"
    )]
    Behind {
        /// Up to which number the database has it.
        stored: u64,
    },
    /// The disk failed, or another broker has the folder.
    #[error("the spool cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// The files of a folder that belongs to one broker.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    identity: Uuid,
    /// Held as long as the spool is open.
    _lock: File,
    bytes_max: u64,
    files: VecDeque<SpoolFile>,
    /// The last file, open for appending; `None`: the next entry begins one.
    writer: Option<File>,
    /// The number of the next entry.
    next: u64,
}

#[derive(Debug)]
struct SpoolFile {
    path: PathBuf,
    /// The number of its first entry.
    first: u64,
    bytes: u64,
}

impl Spool {
    /// Opens the spool of a folder, which is made if it is not there; waits no longer than `patience` for
    /// another broker that has it.
    pub(super) fn open(folder: &Path, bytes_max: u64, patience: Duration) -> io::Result<Spool> {
        fs::create_dir_all(folder)?;
        let lock = lock_of(folder, patience)?;
        let mut paths: Vec<PathBuf> = fs::read_dir(folder)?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "spool")
            })
            .collect();
        paths.sort();
        let mut spool = Spool {
            folder: folder.to_owned(),
            identity: Uuid::nil(),
            _lock: lock,
            bytes_max,
            files: VecDeque::new(),
            writer: None,
            next: 0,
        };
        for path in paths {
            spool.take_in(path)?;
        }
        // Behind that: where no file can be read the numbers begin anew.
        spool.identity = identity_of(folder, spool.files.is_empty())?;
        Ok(spool)
    }

    /// Takes in a file that is there, without what is torn at its end.
    fn take_in(&mut self, path: PathBuf) -> io::Result<()> {
        let bytes = fs::read(&path)?;
        let Some(first) = first_of(&bytes) else {
            tracing::warn!(path = %path.display(), "a file in the spool is no spool file, or was not finished; it is set aside");
            return fs::rename(&path, path.with_extension("unreadable"));
        };
        let mut whole = HEADER_BYTES as usize;
        let mut count = 0;
        while let Some(body) = body_at(&bytes, whole) {
            whole += 8 + body.len();
            count += 1;
        }
        if whole < bytes.len() {
            tracing::warn!(
                path = %path.display(),
                bytes = bytes.len() - whole,
                "the end of a spool file is torn: the broker had answered nobody for it"
            );
            let file = OpenOptions::new().write(true).open(&path)?;
            file.set_len(whole as u64)?;
            file.sync_all()?;
        }
        // What a failed write has left behind the end of the file before it was answered to nobody.
        self.next = first + count;
        self.files.push_back(SpoolFile {
            path,
            first,
            bytes: whole as u64,
        });
        Ok(())
    }

    /// Which spool it is, for the note of how far it is stored.
    pub(super) fn identity(&self) -> Uuid {
        self.identity
    }

    /// The number of the first entry that it holds; of the next one, if it holds none.
    pub(super) fn first(&self) -> u64 {
        self.files.front().map_or(self.next, |file| file.first)
    }

    /// The number of the next entry.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Appends entries, all or none, and returns when the disk has them.
    ///
    /// # Errors
    /// No room, or a failing disk. What may lie half written is cut off.
    pub(super) fn append(&mut self, entries: &[Entry]) -> Result<(), SpoolFault> {
        let mut bytes = Vec::new();
        for entry in entries {
            let start = bytes.len();
            bytes.extend_from_slice(&[0; 8]);
            entry.write(&mut bytes);
            let body = &bytes[start + 8..];
            let length = u32::try_from(body.len()).expect("a body is smaller");
            let sum = crc32fast::hash(body);
            bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
            bytes[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
        }
        let wanted = self.bytes() + bytes.len() as u64 + HEADER_BYTES;
        if wanted > self.bytes_max {
            return Err(SpoolFault::Full {
                bytes_max: self.bytes_max,
            });
        }
        if self
            .files
            .back()
            .is_none_or(|file| file.bytes >= SPOOL_FILE_BYTES)
        {
            self.writer = None;
        }
        let written = self.write(&bytes);
        if written.is_err() {
            self.cut_off();
        } else {
            self.next += entries.len() as u64;
        }
        Ok(written?)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.writer.is_none() {
            self.open_file()?;
        }
        let writer = self.writer.as_mut().expect("it was just begun");
        writer.write_all(bytes)?;
        writer.sync_data()?;
        let file = self.files.back_mut().expect("the writer's");
        file.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Opens the file that the next entry belongs to: the last one if it is empty, because another one
    /// would have its name.
    fn open_file(&mut self) -> io::Result<()> {
        let last = self.files.back();
        let Some(empty) = last.filter(|file| file.first == self.next) else {
            return self.begin_file();
        };
        assert_eq!(empty.bytes, HEADER_BYTES, "no entry is in it");
        let mut file = OpenOptions::new().write(true).open(&empty.path)?;
        // A failed write may have left something behind the header.
        file.set_len(HEADER_BYTES)?;
        file.seek(SeekFrom::End(0))?;
        self.writer = Some(file);
        Ok(())
    }

    fn begin_file(&mut self) -> io::Result<()> {
        let path = self.folder.join(format!("{:020}.spool", self.next));
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            // It holds messages, and the folder may be open to others.
            .mode(0o600)
            .open(&path)?;
        file.write_all(MAGIC)?;
        file.write_all(&self.next.to_le_bytes())?;
        file.sync_all()?;
        // The name must be on disk as well.
        File::open(&self.folder)?.sync_all()?;
        self.files.push_back(SpoolFile {
            path,
            first: self.next,
            bytes: HEADER_BYTES,
        });
        self.writer = Some(file);
        Ok(())
    }

    /// Takes back what a failed write may have left: nobody is told that it is there.
    fn cut_off(&mut self) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        let end = self.files.back().map_or(HEADER_BYTES, |file| file.bytes);
        let cut = writer
            .set_len(end)
            .and_then(|()| writer.seek(SeekFrom::Start(end)).map(drop));
        if let Err(fault) = cut {
            tracing::warn!("the end of the spool cannot be cut off: {fault}");
            // Nothing is appended behind what may be torn.
            self.writer = None;
        }
    }

    /// Entries with their numbers, from a number on, oldest first, at most so many and about so many bytes.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) fn read(
        &self,
        from: u64,
        count: usize,
        bytes: usize,
    ) -> io::Result<Vec<(u64, Entry)>> {
        let mut entries = Vec::new();
        let mut taken = 0;
        for (place, file) in self.files.iter().enumerate() {
            let behind = self
                .files
                .get(place + 1)
                .map_or(self.next, |next| next.first);
            if behind <= from {
                continue;
            }
            let mut text = Vec::new();
            File::open(&file.path)?
                .take(file.bytes)
                .read_to_end(&mut text)?;
            let mut at = HEADER_BYTES as usize;
            let mut number = file.first;
            while number < behind
                && let Some(body) = body_at(&text, at)
            {
                at += 8 + body.len();
                if number >= from {
                    let Some(entry) = Entry::read(body) else {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidData,
                            format!("entry {number} of {} cannot be read", file.path.display()),
                        ));
                    };
                    taken += body.len();
                    entries.push((number, entry));
                    if entries.len() >= count || taken >= bytes {
                        return Ok(entries);
                    }
                }
                number += 1;
            }
        }
        Ok(entries)
    }

    /// Removes the files whose entries all have a smaller number. One is left, if an empty one: it says
    /// where the numbers go on.
    ///
    /// # Errors
    /// One cannot be removed.
    pub(super) fn remove_before(&mut self, number: u64) -> io::Result<()> {
        while let Some(file) = self.files.front() {
            let behind = self.files.get(1).map_or(self.next, |next| next.first);
            if behind > number || file.first == self.next {
                break;
            }
            if self.files.len() == 1 {
                self.begin_file()?;
            }
            let file = self.files.pop_front().expect("it was just seen");
            fs::remove_file(&file.path)?;
        }
        Ok(())
    }
}

/// Holds the folder for this process. A child that is just being started may hold it for a moment too.
fn lock_of(folder: &Path, patience: Duration) -> io::Result<File> {
    let lock = File::create(folder.join("lock"))?;
    let deadline = Instant::now() + patience;
    while rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        if deadline <= Instant::now() {
            let text = "another broker uses it; give each a folder of its own";
            return Err(io::Error::other(text));
        }
        thread::park_timeout(Duration::from_millis(SPOOL_LOCK_MS / 100));
    }
    Ok(lock)
}

/// The spool's own name, made when it is opened first, and anew where its files are gone: its numbers
/// begin at 0 then, and what the database knows of the old ones is not true of them.
fn identity_of(folder: &Path, is_empty: bool) -> io::Result<Uuid> {
    let path = folder.join(IDENTITY);
    match fs::read_to_string(&path) {
        Ok(text) if !is_empty => Uuid::try_parse(text.trim())
            .map_err(|fault| io::Error::new(io::ErrorKind::InvalidData, fault.to_string())),
        Err(fault) if fault.kind() != io::ErrorKind::NotFound => Err(fault),
        _ => {
            let identity = Uuid::new_v4();
            let fresh = folder.join("identity.new");
            let mut file = File::create(&fresh)?;
            file.write_all(identity.to_string().as_bytes())?;
            file.sync_all()?;
            fs::rename(&fresh, &path)?;
            File::open(folder)?.sync_all()?;
            Ok(identity)
        }
    }
}

fn first_of(bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(MAGIC)?;
    Some(u64::from_le_bytes(rest.get(..8)?.try_into().ok()?))
}

/// The entry at a place, if it is whole.
fn body_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let head = bytes.get(at..at + 8)?;
    let length = u32::from_le_bytes(head[..4].try_into().ok()?) as usize;
    let sum = u32::from_le_bytes(head[4..].try_into().ok()?);
    if length > SPOOL_ENTRY_BYTES_MAX {
        return None;
    }
    let body = bytes.get(at + 8..at + 8 + length)?;
    (crc32fast::hash(body) == sum).then_some(body)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::engine::spool::test::{Folder, entry};

    fn append(spool: &mut Spool, numbers: std::ops::Range<u64>) {
        let entries: Vec<Entry> = numbers.map(entry).collect();
        spool.append(&entries).expect("there is room");
    }

    #[test]
    fn what_is_appended_is_read_after_a_restart() {
        let folder = Folder::new();
        let mut spool = Spool::open(&folder, 1 << 20, Duration::ZERO).expect("it opens");
        let identity = spool.identity();
        append(&mut spool, 0..3);
        append(&mut spool, 3..5);
        drop(spool);
        let spool = Spool::open(&folder, 1 << 20, Duration::ZERO).expect("it opens");
        assert_eq!((spool.identity(), spool.next()), (identity, 5));
        let entries = spool.read(2, 2, usize::MAX).expect("it reads");
        assert_eq!(entries, [(2, entry(2)), (3, entry(3))]);
    }

    #[test]
    fn where_no_file_can_be_read_the_numbers_begin_anew_and_so_does_the_spool() {
        let folder = Folder::new();
        let mut spool = Spool::open(&folder, 1 << 20, Duration::ZERO).expect("it opens");
        append(&mut spool, 0..3);
        let (identity, path) = (spool.identity(), spool.files[0].path.clone());
        drop(spool);
        fs::write(&path, b"damaged").expect("it is written");
        let spool = Spool::open(&folder, 1 << 20, Duration::ZERO).expect("it opens");
        assert_eq!(spool.next(), 0);
        assert_ne!(spool.identity(), identity);
        assert!(path.with_extension("unreadable").exists());
    }

    #[test]
    fn nobody_else_reads_what_waits() {
        let folder = Folder::new();
        let mut spool = Spool::open(&folder, 1 << 20, Duration::ZERO).expect("it opens");
        append(&mut spool, 0..1);
        let metadata = fs::metadata(&spool.files[0].path).expect("it is there");
        assert_eq!(metadata.permissions().mode() & 0o077, 0);
    }

    #[test]
    fn a_spool_whose_files_are_gone_is_another_one() {
        let folder = Folder::new();
        let mut spool = Spool::open(&folder, 1 << 20, Duration::ZERO).expect("it opens");
        append(&mut spool, 0..3);
        let (identity, path) = (spool.identity(), spool.files[0].path.clone());
        drop(spool);
        fs::remove_file(path).expect("it is removed");
        let spool = Spool::open(&folder, 1 << 20, Duration::ZERO).expect("it opens");
        assert!(spool.identity() != identity && spool.next() == 0);
    }

    #[test]
    fn a_torn_end_is_left_out_wherever_it_is_torn() {
        let folder = Folder::new();
        let mut spool = Spool::open(&folder, 1 << 20, Duration::ZERO).expect("it opens");
        append(&mut spool, 0..2);
        let path = spool.files[0].path.clone();
        let whole = fs::read(&path).expect("it reads");
        let kept = spool.files[0].bytes;
        append(&mut spool, 2..3);
        let torn = fs::read(&path).expect("it reads");
        drop(spool);
        for end in kept as usize..torn.len() {
            fs::write(&path, &torn[..end]).expect("it writes");
            let mut spool = Spool::open(&folder, 1 << 20, Duration::ZERO).expect("it opens");
            assert_eq!(spool.next(), 2, "torn at {end}");
            assert_eq!(fs::read(&path).expect("it reads"), whole);
            append(&mut spool, 2..3);
            assert_eq!(spool.read(0, 9, usize::MAX).expect("it reads").len(), 3);
            fs::remove_file(folder.join(format!("{:020}.spool", 2))).expect("a file of its own");
        }
    }

    #[test]
    fn it_holds_no_more_than_it_may_and_gives_room_back() {
        let folder = Folder::new();
        let mut spool = Spool::open(&folder, 400, Duration::ZERO).expect("it opens");
        append(&mut spool, 0..2);
        let many: Vec<Entry> = (2..20).map(entry).collect();
        assert!(matches!(
            spool.append(&many),
            Err(SpoolFault::Full { bytes_max: 400 })
        ));
        assert_eq!(spool.next(), 2);
        spool.remove_before(1).expect("nothing to remove yet");
        assert_eq!(
            spool.read(1, 9, usize::MAX).expect("it reads"),
            [(1, entry(1))]
        );
        spool.remove_before(2).expect("it removes");
        assert_eq!(spool.bytes(), HEADER_BYTES);
        drop(spool);
        // The numbers go on where they were, or what comes next would be taken for stored.
        let mut spool = Spool::open(&folder, 400, Duration::ZERO).expect("it opens");
        assert_eq!(spool.next(), 2);
        append(&mut spool, 2..4);
        assert_eq!(spool.read(2, 9, usize::MAX).expect("it reads").len(), 2);
    }

    #[test]
    fn what_follows_in_an_emptied_spool_is_kept_until_all_of_it_is_stored() {
        let folder = Folder::new();
        let mut spool = Spool::open(&folder, 1 << 20, Duration::ZERO).expect("it opens");
        append(&mut spool, 0..2);
        spool.remove_before(2).expect("it removes");
        drop(spool);
        let mut spool = Spool::open(&folder, 1 << 20, Duration::ZERO).expect("it opens");
        append(&mut spool, 2..5);
        for stored in 2..5 {
            spool.remove_before(stored).expect("nothing to remove yet");
            let left: Vec<_> = (stored..5).map(|number| (number, entry(number))).collect();
            assert_eq!(spool.read(stored, 9, usize::MAX).expect("it reads"), left);
        }
        drop(spool);
        let mut spool = Spool::open(&folder, 1 << 20, Duration::ZERO).expect("it opens");
        assert_eq!(
            spool.read(4, 9, usize::MAX).expect("it reads"),
            [(4, entry(4))]
        );
        spool.remove_before(5).expect("it removes");
        assert_eq!((spool.bytes(), spool.next()), (HEADER_BYTES, 5));
    }
}
