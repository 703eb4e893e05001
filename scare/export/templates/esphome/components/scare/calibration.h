/* Calibrates the sensors of a node: once every step of the model, their published values become one row. */
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "esphome/components/sensor/sensor.h"
#include "esphome/core/component.h"

#include "scare.h"

namespace esphome::scare_esphome {

/* One channel: the mean of the values that its sensor published since the last row. */
class Input {
 public:
  void listen(sensor::Sensor *source, bool skip_nan);
  /* Value for this row: without a new one the last value, or NaN once that is stale. */
  float read(uint32_t now_ms, uint32_t stale_ms);

 protected:
  void take_(float state);

  float sum_{0}, last_{NAN};
  uint32_t count_{0}, last_ms_{0};
  bool skip_nan_{false};
};

/* Everything except the memory, whose size depends on the model. */
class CalibrationBase : public PollingComponent {
  SUB_SENSOR(calibrated)
  SUB_SENSOR(low)
  SUB_SENSOR(high)
  SUB_SENSOR(raw)
  SUB_SENSOR(flags)

 public:
  CalibrationBase(const scare_model *model, const scare_golden *golden, uint32_t stale_ms, Input *inputs, float *row,
                  uint32_t *memory, size_t bytes)
      : model_(model),
        golden_(golden),
        inputs_(inputs),
        row_(row),
        memory_(memory),
        bytes_(bytes),
        stale_ms_(stale_ms) {}
  void set_input(uint32_t channel, sensor::Sensor *source, bool skip_nan) {
    this->inputs_[channel].listen(source, skip_nan);
  }
  void setup() override;
  void update() override;
  void dump_config() override;
  float get_setup_priority() const override { return setup_priority::DATA; }

 protected:
  void explain_(scare_status status);

  const scare_model *model_;
  const scare_golden *golden_;
  Input *inputs_;
  float *row_;
  uint32_t *memory_;
  size_t bytes_;
  uint32_t stale_ms_;
  ::scare calibration_{};
  scare_status last_status_{SCARE_ARGUMENT};
};

template<uint32_t CHANNELS, size_t BYTES> class Calibration : public CalibrationBase {
 public:
  Calibration(const scare_model *model, const scare_golden *golden, uint32_t stale_ms)
      : CalibrationBase(model, golden, stale_ms, this->channels_, this->numbers_, this->words_,
                        sizeof this->words_) {}

 protected:
  Input channels_[CHANNELS];
  float numbers_[CHANNELS];
  uint32_t words_[SCARE_WORDS(BYTES)];
};

}  // namespace esphome::scare_esphome
