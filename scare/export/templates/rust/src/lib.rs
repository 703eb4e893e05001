//! $title
//!
//! A safe layer over the C of this crate: no standard library, no allocation.
#![no_std]

use core::ffi::{c_char, c_uint, CStr};
use core::fmt;
use core::marker::PhantomData;

/// Numbers of a reading, in this order: $channels.
pub const CHANNELS: usize = $channel_count;
/// Readings in a window.
pub const WINDOW: usize = $window;
/// Milliseconds from one reading to the next.
pub const STEP_MS: u32 = $step_ms;
/// Bytes of an exact blob, and of one that may be rounded.
pub const STORE_BYTES: usize = $store_bytes;
pub const STORE_ROUNDED_BYTES: usize = $store_rounded_bytes;

/// Bits of `flags`.
pub mod flags {
$flags
}

/// Why there is no calibrated value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Status(c_uint);

impl Status {
$statuses

    pub fn explain(self) -> &'static str {
        // SAFETY: it is a constant C string in ASCII, for every number.
        unsafe { CStr::from_ptr(scare_explain(self.0)) }.to_str().unwrap_or("")
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.explain(), self.0)
    }
}

/// A calibrated value and the ends of its interval (NaN if the model has none).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    pub value: f32,
    pub low: f32,
    pub high: f32,
    pub flags: u32,
}

/// A reading without a calibrated value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoValue {
    pub status: Status,
    pub flags: u32,
}

/// What a calibration needs in RAM, for example a static.
pub struct Memory([u32; $words]);

impl Memory {
    pub const fn new() -> Self {
        Memory([0; $words])
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

/// A `scare`, of which c/scare_rust.c checks the size. It points into `Memory` and to constants only, so it may move.
#[repr(C)]
struct State([usize; 32]);

/// The calibration of one sensor.
pub struct Calibration<'a> {
    state: State,
    memory: PhantomData<&'a mut Memory>,
}

impl<'a> Calibration<'a> {
    /// Starts with an empty window, after the model's self-test.
    pub fn new(memory: &'a mut Memory) -> Result<Self, Status> {
        let mut state = State([0; 32]);
        let words = memory.0.as_mut_ptr();
        // SAFETY: state and memory are as large as C says, and the memory is borrowed as long as the state lives.
        checked(unsafe { scare_init(&mut state, &MODEL, words, core::mem::size_of::<Memory>()) })?;
        checked(unsafe { scare_self_test(&mut state, &GOLDEN) })?;
        Ok(Calibration { state, memory: PhantomData })
    }

    /// Calibrates the reading of time `now_ms`, which may wrap around.
    pub fn calibrate(&mut self, now_ms: u32, reading: &[f32; CHANNELS]) -> Result<Answer, NoValue> {
        let mut answer = Answer { value: 0.0, low: 0.0, high: 0.0, flags: 0 };
        // SAFETY: the reading has as many numbers as the model has channels.
        let status = unsafe { scare_calibrate(&mut self.state, now_ms, reading.as_ptr(), &mut answer) };
        checked(status).map(|()| answer).map_err(|status| NoValue { status, flags: answer.flags })
    }

    /// Forgets all readings; what settling has found stays.
    pub fn reset(&mut self) {
        // SAFETY: the state was initialised.
        unsafe { scare_reset(&mut self.state) };
    }

    /// Stores the state; `clock_ms` is a clock that counts on while the board is off.
    pub fn store(&self, clock_ms: u64, blob: &mut [u8]) -> Result<(), Status> {
        // SAFETY: C writes at most as many bytes as the blob has.
        checked(unsafe { scare_store(&self.state, clock_ms, blob.as_mut_ptr(), blob.len()) })
    }

    /// Goes on with a stored state; what is damaged or of another model is refused and changes nothing.
    pub fn restore(&mut self, clock_ms: u64, blob: &[u8]) -> Result<(), Status> {
        // SAFETY: C reads at most as many bytes as the blob has, and checks what they say.
        checked(unsafe { scare_restore(&mut self.state, clock_ms, blob.as_ptr(), blob.len()) })
    }
}

fn checked(status: c_uint) -> Result<(), Status> {
    if status == 0 {
        return Ok(());
    }
    Err(Status(status))
}

#[repr(C)]
struct Constant([u8; 0]);

extern "C" {
    #[link_name = "$name"]
    static MODEL: Constant;
    #[link_name = "${name}_golden"]
    static GOLDEN: Constant;
    fn scare_init(state: *mut State, model: *const Constant, memory: *mut u32, bytes: usize) -> c_uint;
    fn scare_self_test(state: *mut State, golden: *const Constant) -> c_uint;
    fn scare_calibrate(state: *mut State, now_ms: u32, reading: *const f32, answer: *mut Answer) -> c_uint;
    fn scare_reset(state: *mut State) -> c_uint;
    fn scare_store(state: *const State, clock_ms: u64, blob: *mut u8, bytes: usize) -> c_uint;
    fn scare_restore(state: *mut State, clock_ms: u64, blob: *const u8, bytes: usize) -> c_uint;
    fn scare_explain(status: c_uint) -> *const c_char;
}
