//! Commands under real supervisors: every test starts real processes and looks at what is left of them.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[cfg(feature = "crash-points")]
mod crash;
mod ending;
mod flushing;
mod full_disk;
mod job;
mod output;
mod progress;
mod scene;
mod server;
mod starting;
mod survival;
