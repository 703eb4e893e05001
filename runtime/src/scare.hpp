/* scare.h for C++11 and later: no exceptions, no allocation, nothing to destroy.
 *
 *     static scare_cpp::Calibration<MODEL_CHANNELS, MODEL_BYTES> calibration;
 *     if (calibration.begin(model, model_golden) != SCARE_OK) …
 *     …
 *     const scare_cpp::Answer answer = calibration.calibrate(millis(), reading);
 *     if (answer) use(answer.value, answer.low, answer.high); */
#ifndef SCARE_HPP
#define SCARE_HPP

#include "scare.h"

namespace scare_cpp {

/* An answer with its status; true if it has a value. */
struct Answer : scare_answer {
    scare_status status;
    explicit operator bool() const { return status == SCARE_OK; }
    const char *explain() const { return scare_explain(status); }
    bool has(uint32_t flag) const { return (flags & flag) != 0; }
};

/* The calibration of one sensor, by a model of CHANNELS channels that takes BYTES of memory. It cannot be copied,
 * because it points into itself. */
template <size_t CHANNELS, size_t BYTES> class Calibration {
  public:
    Calibration() = default;
    Calibration(const Calibration &) = delete;
    Calibration &operator=(const Calibration &) = delete;

    /* Start with an empty window. */
    scare_status begin(const scare_model &model) {
        return model.channels == CHANNELS ? scare_init(&calibration_, &model, memory_, sizeof memory_) : SCARE_ARGUMENT;
    }

    /* The same, after the model's self-test. */
    scare_status begin(const scare_model &model, const scare_golden &golden) {
        const scare_status status = begin(model);
        return status == SCARE_OK ? scare_self_test(&calibration_, &golden) : status;
    }

    Answer calibrate(uint32_t now_ms, const float (&reading)[CHANNELS]) {
        Answer answer;
        answer.status = scare_calibrate(&calibration_, now_ms, reading, &answer);
        return answer;
    }

    scare_status reset() { return scare_reset(&calibration_); }

    /* The state in a blob of MODEL_STORE_BYTES, or of MODEL_STORE_ROUNDED_BYTES, and back. */
    template <size_t SIZE> scare_status store(uint64_t clock_ms, uint8_t (&blob)[SIZE]) const {
        return scare_store(&calibration_, clock_ms, blob, SIZE);
    }
    template <size_t SIZE> scare_status restore(uint64_t clock_ms, const uint8_t (&blob)[SIZE]) {
        return scare_restore(&calibration_, clock_ms, blob, SIZE);
    }

    /* For scare_learn and other functions of C. */
    scare *c() { return &calibration_; }

  private:
    scare calibration_{};
    uint32_t memory_[SCARE_WORDS(BYTES)]{};
};

} // namespace scare_cpp

#endif
