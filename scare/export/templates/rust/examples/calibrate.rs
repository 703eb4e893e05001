//! Prints simulated readings with their calibrated values, intervals and flags as CSV. A reading without a calibrated
//! value gets NaN; the last column says why.
use scare_$short::{Calibration, Memory, CHANNELS, STEP_MS, WINDOW};

/// Smallest and largest value that the model has seen, by channel.
const ENDS: [[f32; 2]; CHANNELS] = [
$ranges
];

/// The reading of this number: every channel goes up and down.
fn simulate(number: u32) -> [f32; CHANNELS] {
    core::array::from_fn(|channel| {
        let phase = number % 240 * (3 + 2 * channel as u32) % 240;
        let share = (if phase < 120 { phase } else { 240 - phase }) as f32 / 120.0;
        ENDS[channel][0] + share * (ENDS[channel][1] - ENDS[channel][0])
    })
}

fn main() {
    let mut memory = Memory::new();
    let mut calibration = Calibration::new(&mut memory).expect("the model does not run on this computer");
    println!("$heading");
    for number in 0..WINDOW as u32 + 60 {
        let reading = simulate(number);
        for one in reading {
            print!("{one:.6},");
        }
        match calibration.calibrate(number * STEP_MS, &reading) {
            Ok(answer) => {
                println!("{:.6},{:.6},{:.6},{},calibrated", answer.value, answer.low, answer.high, answer.flags)
            }
            Err(none) => println!("NaN,NaN,NaN,{},{}", none.flags, none.status.explain()),
        }
    }
}
