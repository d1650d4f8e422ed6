//! Every upper bound of the broker: value, unit, reason. Settings have their defaults and ranges in
//! `config`; what stands here cannot be set.

/// Cores that exchange frames, shards, engine and reader together: they stand as bits of one word.
pub const CORES_MAX: u16 = 64;

/// Shard cores: of all cores one is the engine and one the reader.
pub const SHARDS_MAX: u16 = CORES_MAX - 2;

/// Microseconds that a shard may poll after the last event before it sleeps.
pub const SPIN_US_MAX: u64 = 100_000;

/// Bytes of a queue, partition or group name: a path segment that every client can send.
pub const NAME_BYTES_MAX: usize = 512;

/// Messages in one push, acks in one ack, and messages in one pop: what one step may cost.
pub const BATCH_ITEMS_MAX: usize = 10_000;

/// Open brackets at one point of a payload: no published client can read back more.
pub const NESTING_MAX: usize = 120;

/// Groups of one queue: every ring has a cursor for each, so names must not be minted freely.
pub const GROUPS_MAX: usize = 4_096;

/// Live partitions of one queue on one shard: empty ones cost memory that no byte budget sees.
pub const PARTITIONS_MAX: usize = 262_144;

/// Cursors of one queue, one for each group in each partition: the two bounds above
/// multiply to far more than a broker can hold.
pub const QUEUE_CURSORS_MAX: usize = 1_048_576;

/// Cursors of one broker: an inbox has one, and as many inboxes as queues may have theirs.
pub const CURSORS_MAX: usize = 4_194_304;

/// Queues of one broker: empty ones cost memory that no byte budget sees.
pub const QUEUES_MAX: usize = 4_194_304;

/// Tenants of one broker; a later one is refused, never an earlier one evicted.
pub const TENANTS_MAX: usize = 10_000;

/// Bytes of a bearer token; those that hold are remembered.
pub const TOKEN_BYTES_MAX: usize = 8 * 1_024;

/// Tokens that a core remembers as verified; one more, and it forgets them all.
pub const TOKENS_REMEMBERED_MAX: usize = 1_024;

/// Bytes of the subject of a token: it is stored with each message.
pub const SUBJECT_BYTES_MAX: usize = 1_024;

/// Milliseconds a pop may wait.
pub const POP_WAIT_MS_MAX: u64 = 300_000;

/// Milliseconds a pop of the durable class may wait: the published clients expect no more.
pub const DURABLE_WAIT_MS_MAX: u64 = 60_000;

/// Partitions that one pop of the durable class may take from: what one claim may cost.
pub const POP_PARTITIONS_MAX: u32 = 256;

/// Partitions that a pop with `autopilot` takes from where it does not say: not as many as it may,
/// as everybody in its batch waits for its claim.
pub const AUTOPILOT_PARTITIONS: u32 = 64;

/// Seconds that an option, a lease or an extension of the durable class may last: 3,650 days.
pub const DURABLE_SECONDS_MAX: u32 = 315_360_000;

/// Milliseconds that a group may wait after a failure (`retryDelay`): one day.
pub const RETRY_DELAY_MS_MAX: u32 = 86_400_000;

/// Milliseconds that a waiting pop of the durable class may gather (`minPopWaitTime`).
pub const MIN_POP_WAIT_MS_MAX: u32 = 60_000;

/// Failures that `retryLimit` of a durable queue may allow.
pub const DURABLE_RETRY_LIMIT_MAX: u32 = 1_000_000;

/// Messages that `maxSize` of a durable queue may allow: more than a database holds.
pub const DURABLE_SIZE_MAX: u64 = 1_000_000_000_000;

/// Bytes of `retentionSinkHold`, and seconds of `retentionSinkHoldMaxSeconds`: they are kept and
/// given back as the published clients know them.
pub const SINK_HOLD_BYTES_MAX: usize = 64;
/// See [`SINK_HOLD_BYTES_MAX`].
pub const SINK_HOLD_SECONDS_MAX: u32 = 31_536_000;

/// Bytes of the reason of a failure that are kept with a dead letter; a longer one is cut.
pub const FAILURE_TEXT_BYTES_MAX: usize = 4 * 1024;

/// Leases that could not be delivered and wait for room in the engine's inbox on a shard core; a
/// further one ends by itself.
pub const GIVE_BACKS_MAX: usize = 4_096;

/// Milliseconds until they are tried again.
pub const GIVE_BACK_RETRY_MS: u64 = 20;

/// Rows of a listing that are built in one step.
pub const LIST_STEP_ROWS: usize = 256;

/// Bytes of a request head, request line and fields together (431 above it).
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Fields of a request head (431 above it).
pub const HEAD_FIELDS_MAX: usize = 128;

/// Bytes of the extensions of one chunk: nobody uses them, so only their grammar needs room.
pub const CHUNK_EXTENSION_BYTES_MAX: usize = 4 * 1024;

/// Bytes of all chunk extensions of one body: they are read and thrown away.
pub const CHUNK_EXTENSIONS_BYTES_MAX: usize = 64 * 1024;

/// Requests of one connection that may wait for an answer; then reading stops.
pub const PIPELINE_REQUESTS_MAX: usize = 64;

/// Bytes of answers that may queue on one connection; then reading stops.
pub const PIPELINE_ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Milliseconds that a write may make no progress; then the client counts as gone.
pub const WRITE_STALL_MS: u64 = 30_000;

/// Milliseconds that a connection is read after its last answer, so that the client sees it.
pub const LINGER_MS: u64 = 1_000;

/// Bytes that are read and dropped after the last answer of a connection.
pub const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// Milliseconds that a stopping core waits for the first request of a connection.
pub const DRAIN_FRESH_MS: u64 = 250;

/// Milliseconds that a stopping core gives its clients to read their answers.
pub const DRAIN_WRITE_MS: u64 = 5_000;

/// Milliseconds that a stopping core waits for the rest of a request that has begun to arrive.
pub const DRAIN_PARTIAL_MS: u64 = 2_000;

/// Bytes of a request, head and body together, that are gathered in the read buffer; a larger body
/// gets a buffer of its own.
pub const INLINE_REQUEST_BYTES_MAX: usize = 16 * 1024;

/// Receives of one connection that may succeed without waiting before others run.
pub const READY_RECEIVES_MAX: u32 = 8;

/// Connections accepted in one turn before others run.
pub const ACCEPT_STEP_MAX: usize = 64;

/// Milliseconds without accepting after the kernel refused a connection for want of descriptors or
/// memory.
pub const ACCEPT_PAUSE_MS: u64 = 20;

/// Connections over the bound that are answered 503 at one time on a core; more are just closed.
pub const REFUSED_CONNECTIONS_MAX: usize = 256;

/// Milliseconds a TTL may last: 3,650 days.
pub const TTL_MS_MAX: u64 = 315_360_000_000;

/// Milliseconds a lease may last: one day.
pub const LEASE_MS_MAX: u64 = 86_400_000;

/// Deliveries that a retry limit may allow.
pub const RETRY_LIMIT_MAX: u64 = 1_000;

/// Milliseconds a window may be held open.
pub const WINDOW_MS_MAX: u64 = 60_000;

/// Messages that a window may gather.
pub const WINDOW_COUNT_MAX: u64 = 10_000;

/// Slots that a ring keeps for lingering messages alone: enough for a group that appears late,
/// small enough that a ring in steady use stays in the processor's cache.
pub const LINGER_SLOTS_MAX: usize = 1_024;

/// Share of `QUEEN_EPHEMERAL_MAX_BYTES` that lingering messages may hold: one in so many bytes.
pub const LINGER_SHARE: u64 = 16;

/// Dropped messages that a ring tells apart from passed ones: answers that still fail are younger.
pub const DROPPED_REMEMBERED_MAX: usize = 256;

/// Messages that one turn may expire, leases that it may end included, before the next request is
/// served.
pub const EXPIRE_STEP_MAX: usize = 4_096;

/// Timers that one turn may look at before the next request is served.
pub const DUE_STEP_MAX: usize = 512;

/// Milliseconds that a start waits for a port that no process is seen to hold.
pub const PORT_RELEASE_MS: u64 = 2_000;

/// Queues that have a series of their own in `queen_parked_long_polls`: a scrape stays small.
pub const PARKED_SERIES_MAX: usize = 1_000;

/// Connections that wait to be accepted; the kernel may allow fewer (`net.core.somaxconn`).
pub const LISTEN_BACKLOG: u32 = 4_096;

/// Milliseconds that a stopping broker has until it exits.
pub const SHUTDOWN_MS_MAX: u64 = 10_000;

/// Milliseconds that creating, starting or recovering the private cluster may show no progress.
pub const CLUSTER_STALL_MS: u64 = 60_000;

/// Milliseconds between two looks at a process of PostgreSQL that is being waited for.
pub const CLUSTER_POLL_MS: u64 = 20;

/// Milliseconds that one question whether PostgreSQL answers may take.
pub const CLUSTER_PROBE_MS: u64 = 1_000;

/// Milliseconds that a start goes on while what a killed postmaster left behind is in its way.
pub const CLUSTER_CONTENTION_MS: u64 = 15_000;

/// Megabytes of memory that a new private cluster takes for its pages: PostgreSQL's own default, and what
/// has shown to be enough. Between them an eighth of the machine.
pub const CLUSTER_BUFFERS_MB_MIN: u64 = 128;
/// The upper end of the same.
pub const CLUSTER_BUFFERS_MB_MAX: u64 = 512;

/// Bytes of the private cluster's log above which a start begins a new file; one old one is kept.
pub const CLUSTER_LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Bytes at the end of that log that are searched for the reason of a failure.
pub const CLUSTER_LOG_TAIL_BYTES: u64 = 64 * 1024;

/// Lines of a program's output that the text of a fault repeats.
pub const FAULT_LINES_MAX: usize = 12;

/// Bytes of an answer to the question whether PostgreSQL answers: only its code is wanted.
pub const CLUSTER_PROBE_BYTES_MAX: usize = 16 * 1024;

/// Bytes of the path of a unix socket (`sun_path` of unix(7), without its end).
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Frames that a core takes from its lanes in one step before its own connections have a turn.
pub const FRAMES_STEP_MAX: usize = 256;

/// Milliseconds after which such a step takes no further frame: one may be a batch of 10,000.
pub const FRAMES_STEP_MS: u64 = 1;

/// Requests in the lane from one core to another; a request more is refused (429 `overloaded`).
pub const REQUEST_LANE_SLOTS: usize = 1_024;

/// Answers in the lane from one core to another; what does not fit waits at its sender.
pub const REPLY_LANE_SLOTS: usize = 1_024;

/// Frames that the queue of those waiting for room in a lane keeps memory for once it is empty: one
/// stall of another core must not cost its peak for ever.
pub const LANE_WAITING_KEPT: usize = 64;

/// Times that a push asks for room in a queue that lies on several shards; then it is refused: others
/// take the room that is made, so another try need not end better.
pub const ROOM_TRIES_MAX: u32 = 64;

/// Pushes that may wait for room in one queue on one shard; a push more is refused: no budget counts
/// what waits.
pub const HELD_PUSHES_MAX: usize = 1_024;

/// Of those the ones that are tried in one step.
pub const HELD_STEP_MAX: usize = 64;

/// Milliseconds after which a push that waits for room looks again by itself: nobody answers where
/// nobody could be asked.
pub const ROOM_RETRY_MS: u64 = 20;

/// Milliseconds that a push waits for room that another shard has to make; then it is refused: its
/// client waits, and those behind it.
pub const ROOM_WAIT_MS: u64 = 250;

/// Lives of a name that one command looks up, each of which may have died under it; then it is
/// refused.
pub const LIVES_TRIED_MAX: usize = 4;

/// Hosts that a connection string may name: each is tried in turn, and each try takes its time.
pub const SERVER_HOSTS_MAX: usize = 8;

/// Milliseconds that connecting to PostgreSQL may take at one host, TLS and login included.
pub const SESSION_CONNECT_MS: u64 = 2_000;

/// Of those the milliseconds for one address of the host, so that a second one has its turn.
pub const SESSION_ADDRESS_MS: u64 = 900;

/// Milliseconds that PostgreSQL has for a statement.
pub const SESSION_STATEMENT_MS: u64 = 2_000;

/// Bytes of messages from which on a batch of the durable class has more time, at the cost of two round
/// trips more.
pub const BATCH_BYTES_LARGE: u64 = 4 * 1024 * 1024;

/// Bytes that PostgreSQL stores in a millisecond at least: 16 MiB/s, of a disk that is slow or busy.
pub const SESSION_BYTES_PER_MS: u64 = 16 * 1024;

/// Milliseconds for a change that concerns a whole queue of the durable class: a group that begins in
/// 100,000 partitions, the deletion of as many.
pub const SESSION_QUEUE_MS: u64 = 10_000;

/// Milliseconds that a statement waits for a lock.
pub const SESSION_LOCK_MS: u64 = 1_500;

/// Milliseconds that an open transaction of a session may idle, should the broker hang.
pub const SESSION_IDLE_MS: u64 = 10_000;

/// Milliseconds that loading the declarations may bring no further row.
pub const SESSION_LOAD_STALL_MS: u64 = 5_000;

/// Milliseconds that bringing the schema up to date may take, the wait for another broker that does
/// it included.
pub const SESSION_MIGRATE_MS: u64 = 10_000;

/// Milliseconds for asking PostgreSQL to cancel what has taken too long; then the session is given up.
pub const SESSION_CANCEL_MS: u64 = 300;

/// Milliseconds after which whoever waits for PostgreSQL is told that it still waits.
pub const SESSION_WAITING_MS: u64 = 50;

/// Seconds of silence after which the network to PostgreSQL is probed.
pub const SESSION_KEEPALIVE_S: u64 = 5;

/// Milliseconds that PostgreSQL's own timeout of a statement comes before the broker's, so that the
/// session goes on.
pub const SESSION_MARGIN_MS: u64 = 200;

/// Rows of the declarations that are read in one step.
pub const LOAD_STEP_ROWS: i32 = 500;

/// Seconds after which a broker that has not been heard of is no longer counted.
pub const BROKER_SEEN_S: u32 = 15;

/// Seconds after which its row is removed: one day.
pub const BROKER_KEPT_S: u32 = 86_400;

/// Seconds that a removed declaration is remembered, so that other brokers see what was removed; one
/// that was away for longer reads everything anew.
pub const REMOVED_KEPT_S: u32 = 3_600;

/// Ids of queues and partitions that a broker takes at once, so that what comes to be needs no question
/// before; the sequence in the database has the same step.
pub const DURABLE_IDS_STEP: i64 = 1_024;

/// Segments whose transaction ids are read in one step.
pub const HASH_STEP_ROWS: i64 = 1_000;

/// Dead letters that one request replays or throws away: one commit each, so that nobody waits for it.
pub const LETTER_STEP_ROWS: i32 = 1_000;

/// Bytes of messages that one request replays, but for the first of them.
pub const LETTER_STEP_BYTES: i64 = 16 * 1024 * 1024;

/// Names that a trace may have.
pub const TRACE_NAMES_MAX: usize = 64;

/// Rows of a page of traces, where the client does not say and at most.
pub const TRACE_ROWS_DEFAULT: u32 = 100;
/// See [`TRACE_ROWS_DEFAULT`].
pub const TRACE_ROWS_MAX: u32 = 1_000;

/// Bytes of segments that are read for the payloads of a page of traces; further ones are not shown.
pub const TRACE_SEGMENT_BYTES: i64 = 16 * 1024 * 1024;

/// Removed declarations that are forgotten in one step.
pub const PURGE_STEP_ROWS: i64 = 10_000;

/// Jobs that wait for the engine, in its channel and at its desk each; one more is refused (429
/// `overloaded`).
pub const ENGINE_JOBS_MAX: usize = 1_024;

/// Milliseconds that a job waits while the engine waits for PostgreSQL; then it is refused.
pub const ENGINE_PATIENCE_MS: u64 = 1_500;

/// Milliseconds after which a job that has waited behind others is not begun any more but refused:
/// with the longest transaction it is answered within 5 s.
pub const ENGINE_BEGIN_MS: u64 = 2_400;

/// Milliseconds within which a session must break for its transaction to be tried again on another
/// one: whoever waits is answered within 5 s whatever happens.
pub const ENGINE_RETRY_MS: u64 = 500;

/// Bytes of a segment of the durable class, but for a single message that is larger: one row then lies
/// in one page of PostgreSQL.
pub const SEGMENT_BYTES: usize = 7_900;

/// Messages of one segment: whoever looks for one of them looks through all.
pub const SEGMENT_MESSAGES_MAX: u32 = 256;

/// Partitions of which a session remembers where it has left them (the epochs of `0012_epoch.sql`), about
/// 32 bytes each; beyond that it begins anew.
pub const EPOCH_PARTITIONS_MAX: usize = 131_072;

/// Bytes of a partition's newest messages that are kept in memory, so that they are delivered without
/// reading them.
pub const DURABLE_TAIL_BYTES: usize = 65_536;

/// The same of all partitions together: those that grew longest ago are read where they are asked for.
pub const DURABLE_TAILS_BYTES: usize = 128 * 1024 * 1024;

/// Bytes that the transaction ids of all partitions take in memory before those go that were not used
/// for [`DURABLE_UNUSED_S`]: about 56 for each message inside its queue's window.
pub const DURABLE_WINDOWS_BYTES: usize = 256 * 1024 * 1024;

/// Durable queues and their partitions that are remembered before those queues are forgotten that were
/// not used for [`DURABLE_UNUSED_S`]: about half a kilobyte each, and as much again for each group.
pub const DURABLE_PLACES_MAX: usize = 500_000;

/// Seconds without use after which what is remembered of a durable queue may be forgotten. Shorter,
/// and a broker with too little room would read the same again for each batch.
pub const DURABLE_UNUSED_S: i64 = 10;

/// Bytes from which a file of the spool is followed by another one: what is stored goes file by file.
pub const SPOOL_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Milliseconds that a start waits for the folder of the spool.
pub const SPOOL_LOCK_MS: u64 = 1_000;

/// Bytes of one spooled push, more than any body has.
pub const SPOOL_ENTRY_BYTES_MAX: usize = 80 * 1024 * 1024;

/// Microseconds by which the machine's clock and the database's may differ where it is looked up whether
/// a spooled push is stored already.
pub const SPOOL_CLOCK_US: i64 = 600_000_000;

/// Spooled pushes that are stored in one batch.
pub const SPOOL_READ_ENTRIES: usize = 2_000;

/// Bytes of them.
pub const SPOOL_READ_BYTES: usize = 8 * 1024 * 1024;

/// How often a batch is judged anew because other brokers were faster; then it is refused.
pub const DURABLE_TRIES_MAX: usize = 16;

/// Partitions whose messages one pop finds that it cannot decrypt, or damaged, before it looks no further;
/// later pops look at those that are left. Each costs a question to the database, and others wait.
pub const DURABLE_REFUSALS_MAX: usize = 16;

/// Milliseconds between two looks for what other brokers have changed: they hold within a second.
pub const POLL_MS: u64 = 250;

/// Milliseconds without a look after which a broker remembers nothing of the durable class: the others
/// tell their changes only to who has given a sign of life within 60 s.
pub const FOLLOW_MS_MAX: u64 = 10_000;

/// Milliseconds between two signs of life of a broker in the database.
pub const BEAT_MS: u64 = 5_000;

/// The same after a write that failed: it says when writing works again.
pub const WRITE_RETRY_MS: u64 = 1_000;

/// Rows that one step of retention removes or gives up at most, and by default: a push that comes in
/// between waits for no more than that.
pub const RETENTION_STEP_ROWS_MAX: i32 = 1_000;

/// Partitions that one step of retention looks at, whatever it finds.
pub const RETENTION_STEP_PARTITIONS: i32 = 256;

/// Milliseconds between two steps of a round of retention, for whoever shares its thread and the server.
pub const RETENTION_PAUSE_MS: u64 = 20;

/// Milliseconds between two rounds in which partitions are looked for that nobody has used for days.
pub const IDLE_PARTITIONS_MS: u64 = 3_600_000;

/// Days for which such a partition may be unused, at most: ten years.
pub const PARTITION_CLEANUP_DAYS_MAX: u64 = 3_650;

/// Milliseconds between two rounds of retention, at most: a day.
pub const RETENTION_INTERVAL_MS_MAX: u64 = 86_400_000;

/// Bytes of segments that one step gives up, but for a single one that is larger: they are read and stored
/// once more as dead letters.
pub const EXPIRED_STEP_BYTES: i64 = 4 * 1024 * 1024;

/// Questions about what is stored that wait for the reader; one more is refused (429 `overloaded`).
pub const QUESTIONS_MAX: usize = 1_024;

/// Milliseconds that PostgreSQL has for the answer to a question: sums over 100,000 partitions on a
/// machine that has much else to do.
pub const READ_STATEMENT_MS: u64 = 15_000;

/// Partitions and places of groups that the reader remembers for its listings, at most: some 100 bytes
/// each. Where a listing needs more, all of it is counted in the database each time.
pub const LEDGER_ROWS_MAX: usize = 500_000;

/// Where more than one of so many partitions of a queue has changed, all of it is looked through: one by
/// one they take three times as long each.
pub const LEDGER_STALE_SHARE: usize = 3;

/// Partitions of a queue that are taken for so many where there are fewer.
pub const LEDGER_STALE_FEW: usize = 1_000;

/// Milliseconds after which the reader counts anew what it remembers: nobody tells what is changed by
/// hand. For as long the memory is kept behind the last listing.
pub const LEDGER_MS: u64 = 300_000;

/// Microseconds for which a broker is told what others change since it said that it lives: as
/// `queen.has_followers` has it, less a margin for a slow look.
pub const FOLLOWERS_TOLD_US: i64 = 50_000_000;

/// Numbers that other brokers may have used between two listings; beyond, all is counted anew instead.
pub const LEDGER_NUMBERS_MAX: i64 = 20_000;

/// Of the numbers that brokers give what they tell each other, so many of the newest are looked for again
/// where one is missing: that of a removal may come behind those of batches.
pub const LEDGER_NUMBERS_LATE: i64 = 1_000;

/// Milliseconds for which nothing is remembered once a session broke with a change under way: the server
/// may have read it and carry it out yet.
pub const MARKS_LOST_MS: u64 = 60_000;

/// Changes that are noted between two listings, at most; more of them and all is counted anew.
pub const MARKS_MAX: usize = 200_000;

/// Milliseconds that a question waits behind others; then it is refused: clients give up at 30 s.
pub const READ_PATIENCE_MS: u64 = 10_000;

/// Rows of a listing.
pub const READ_ROWS_MAX: u32 = 1_000;

/// Rows of a listing of consumer groups. Published clients know these as plain arrays, which cannot say
/// that there is more, and read them whole.
pub const READ_GROUPS_MAX: u32 = 10_000;

/// Rows of a listing that are left out: what is far behind is found by a name or a time.
pub const READ_OFFSET_MAX: u32 = 1_000_000;

/// Stored bytes of messages in one answer: what a reader may hold in memory.
pub const READ_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Messages, newest first, that a listing of messages looks at.
pub const MESSAGES_LOOK_MAX: u32 = 2_000;

/// Partitions that a read by offsets or a look for changes names.
pub const READ_ENTRIES_MAX: usize = 1_024;

/// Milliseconds that a read by offsets waits.
pub const FETCH_WAIT_MS_MAX: u64 = 30_000;

/// Milliseconds between two looks for those who wait.
pub const FETCH_LOOK_MS: u64 = 100;

/// Reads by offsets that wait; one more is answered with what there is.
pub const FETCHES_WAITING_MAX: usize = 64;

/// Milliseconds within which what has its time is stored and can be seen, or never will be.
pub const SAFE_TIME_MS: u64 = 5_000;

/// Milliseconds until a connection is tried again, at first and at most.
pub const REOPEN_MS_MIN: u64 = 100;
/// See [`REOPEN_MS_MIN`].
pub const REOPEN_MS_MAX: u64 = 2_000;

/// Milliseconds between two tries to send what waits for room in the lanes from the engine.
pub const ENGINE_FLUSH_MS: u64 = 1;

/// Milliseconds that a start waits for a PostgreSQL that does not answer; then it opens without.
pub const START_WAIT_MS: u64 = 5_000;

/// Milliseconds between two looks of such a start whether a signal has come.
pub const START_STEP_MS: u64 = 20;

/// Reports of the engine that wait for a start to look at them; later ones concern nobody.
pub const ENGINE_REPORTS_MAX: usize = 16;

/// Milliseconds of the shutdown that are left after a private cluster was stopped.
pub const ENGINE_CLOSE_MARGIN_MS: u64 = 500;

/// Legs of an exchange: acks, pushes and a pop.
pub const EXCHANGE_LEGS_MAX: usize = 1_000;

/// Bytes of the options of a declaration, which are stored as they were sent.
pub const OPTIONS_BYTES_MAX: usize = 64 * 1024;

const _: () = assert!(WINDOW_COUNT_MAX as usize <= BATCH_ITEMS_MAX);
const _: () = assert!(WINDOW_MS_MAX <= POP_WAIT_MS_MAX);
const _: () = assert!(DURABLE_WAIT_MS_MAX <= POP_WAIT_MS_MAX);
const _: () = assert!(AUTOPILOT_PARTITIONS <= POP_PARTITIONS_MAX);
const _: () = assert!(MIN_POP_WAIT_MS_MAX as u64 <= DURABLE_WAIT_MS_MAX);
const _: () = assert!(DRAIN_PARTIAL_MS + LINGER_MS < SHUTDOWN_MS_MAX);
const _: () = assert!(DRAIN_WRITE_MS + DRAIN_PARTIAL_MS + LINGER_MS < SHUTDOWN_MS_MAX);
const _: () = assert!(QUEUE_CURSORS_MAX <= CURSORS_MAX && QUEUES_MAX <= CURSORS_MAX);
const _: () = assert!(PARTITIONS_MAX <= QUEUE_CURSORS_MAX && GROUPS_MAX <= QUEUE_CURSORS_MAX);
const _: () = assert!(LINGER_SLOTS_MAX.is_power_of_two());
const _: () = assert!(CORES_MAX as u32 <= u64::BITS);
const _: () = assert!(ROOM_RETRY_MS < ROOM_WAIT_MS);
const _: () = assert!(ENGINE_CLOSE_MARGIN_MS < SHUTDOWN_MS_MAX && POLL_MS < 1_000);
const _: () = assert!(ENGINE_BEGIN_MS + SESSION_STATEMENT_MS + SESSION_CANCEL_MS < 5_000);
const _: () = assert!(ENGINE_PATIENCE_MS < ENGINE_BEGIN_MS);
const _: () = assert!(CLUSTER_LOG_TAIL_BYTES < CLUSTER_LOG_BYTES_MAX);
const _: () = assert!(CLUSTER_POLL_MS < CLUSTER_PROBE_MS && CLUSTER_PROBE_MS < CLUSTER_STALL_MS);
const _: () =
    assert!(SESSION_ADDRESS_MS < SESSION_CONNECT_MS && SESSION_LOCK_MS < SESSION_STATEMENT_MS);
const _: () =
    assert!(SESSION_WAITING_MS < SESSION_CANCEL_MS && SESSION_CANCEL_MS < SESSION_CONNECT_MS);
const _: () = assert!(START_STEP_MS < START_WAIT_MS);
