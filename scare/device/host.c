/* A model on this computer: many windows in one call, and one reading after the other. Built with MODEL_HEADER, MODEL
 * (the model's name) and MODEL_MEMORY (its bytes). */
#include MODEL_HEADER
#include "scare.h"

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT
#endif

EXPORT const scare_model *host_model(void);
EXPORT void host_run(const unsigned char *windows, unsigned char *scratch, float *scaled, size_t window_bytes,
                     size_t scratch_bytes, size_t count);
EXPORT size_t host_device_bytes(void);
EXPORT int host_restart(void *device);
EXPORT int host_push(void *device, const float *reading, float *calibrated, uint32_t now_ms);

typedef struct {
    scare calibration;
    uint32_t memory[SCARE_WORDS(MODEL_MEMORY)];
} host_device;

const scare_model *host_model(void) {
    return &MODEL;
}

/* Each window has scratch memory of its own, so that what it keeps there can be read, and chooses for itself. */
void host_run(const unsigned char *windows, unsigned char *scratch, float *scaled, size_t window_bytes,
              size_t scratch_bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        scare_choice choice = {0, 0};
        MODEL.run(windows + i * window_bytes, scratch + i * scratch_bytes, &choice, &scaled[i]);
    }
}

size_t host_device_bytes(void) {
    return sizeof(host_device);
}

int host_restart(void *device) {
    host_device *self = device;
    return (int)scare_init(&self->calibration, &MODEL, self->memory, sizeof self->memory);
}

int host_push(void *device, const float *reading, float *calibrated, uint32_t now_ms) {
    return (int)scare_push(&((host_device *)device)->calibration, now_ms, reading, calibrated);
}
