/* Feeds a component from stdin: a line with a time in milliseconds and, for each channel, a number that its sensor
 * publishes or a dash for none, then `update` or a dash. After an update: raw, calibrated, flags, low and high.
 * Arguments: stale_after in milliseconds, whether NaN is skipped. */
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include "calibration.h"
#include "scare_model_model.h"

namespace esphome {
static uint32_t now_ms;
uint32_t millis() { return now_ms; }
}  // namespace esphome

using namespace esphome;
using Calibration = scare_esphome::Calibration<SCARE_MODEL_MODEL_CHANNELS, SCARE_MODEL_MODEL_BYTES>;

int main(int, char **arguments) {
  static Calibration calibration(&scare_model_model, &scare_model_model_golden, (uint32_t) atol(arguments[1]));
  static sensor::Sensor sources[SCARE_MODEL_MODEL_CHANNELS], raw, calibrated, flags, low, high;
  for (uint32_t i = 0; i < SCARE_MODEL_MODEL_CHANNELS; i++) {
    calibration.set_input(i, &sources[i], atol(arguments[2]) != 0);
  }
  calibration.set_raw_sensor(&raw);
  calibration.set_calibrated_sensor(&calibrated);
  calibration.set_flags_sensor(&flags);
  calibration.set_low_sensor(&low);
  calibration.set_high_sensor(&high);
  calibration.setup();
  calibration.dump_config();
  if (calibration.failed) return 1;
  for (std::string line, word; std::getline(std::cin, line);) {
    std::istringstream words(line);
    words >> now_ms;
    for (auto &source : sources) {
      words >> word;
      if (word != "-") source.publish_state(strtof(word.c_str(), nullptr));
    }
    words >> word;
    if (word != "update") continue;
    calibration.update();
    printf("%.9g,%.9g,%.0f,", (double) raw.state, (double) calibrated.state, (double) flags.state);
    printf("%.9g,%.9g\n", (double) low.state, (double) high.state);
  }
}
