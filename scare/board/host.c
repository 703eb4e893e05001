/* A model on this computer, for host.py: many windows in one call, and one reading after the other. Built with
 * MODEL_HEADER, MODEL (the model's name) or MODEL_CONTENT (that of a blob), and MODEL_MEMORY (its bytes). */
#ifdef _WIN32
#include <windows.h>
#define EXPORT __declspec(dllexport)
#else
#define _POSIX_C_SOURCE 199309L
#include <time.h>
#define EXPORT
#endif

#include MODEL_HEADER
#include "scare.h"

#ifdef MODEL_CONTENT
static scare_blob opened;
#define MODEL opened.model
#endif

EXPORT const scare_model *host_model(void);
EXPORT void host_run(const unsigned char *windows, unsigned char *scratch, float *scaled, size_t window_bytes,
                     size_t scratch_bytes, size_t count);
EXPORT void host_time(const unsigned char *windows, unsigned char *scratch, uint64_t *nanoseconds, size_t window_bytes,
                      size_t count);
EXPORT size_t host_sensor_bytes(void);
EXPORT int host_restart(void *sensor);
EXPORT int host_push(void *sensor, const float *reading, scare_answer *answer, uint32_t now_ms);

typedef struct {
    scare calibration;
    uint32_t memory[SCARE_WORDS(MODEL_MEMORY)];
} host_sensor;

/* NULL for a blob that cannot be opened. */
const scare_model *host_model(void) {
#ifdef MODEL_CONTENT
    if (scare_blob_open_unsigned(&opened, MODEL_CONTENT, sizeof MODEL_CONTENT) != SCARE_OK) return NULL;
#endif
    return &MODEL;
}

/* Windows are independent. Each has its own scratch memory, so that kept values can be read from it. */
void host_run(const unsigned char *windows, unsigned char *scratch, float *scaled, size_t window_bytes,
              size_t scratch_bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        scare_choice choice = {0, 0};
        MODEL.run(windows + i * window_bytes, scratch + i * scratch_bytes, &choice, &scaled[i], &MODEL);
    }
}

static uint64_t now_nanoseconds(void) {
#ifdef _WIN32
    LARGE_INTEGER count, each_second;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&each_second);
    return (uint64_t)((double)count.QuadPart * 1e9 / (double)each_second.QuadPart);
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

/* Windows of a stream, oldest first: they share scratch memory, and the choice of a branch is carried on. */
void host_time(const unsigned char *windows, unsigned char *scratch, uint64_t *nanoseconds, size_t window_bytes,
               size_t count) {
    scare_choice choice = {0, 0};
    float scaled;
    for (size_t i = 0; i < count; i++) {
        uint64_t begun = now_nanoseconds();
        MODEL.run(windows + i * window_bytes, scratch, &choice, &scaled, &MODEL);
        nanoseconds[i] = now_nanoseconds() - begun;
    }
}

size_t host_sensor_bytes(void) {
    return sizeof(host_sensor);
}

int host_restart(void *sensor) {
    host_sensor *self = sensor;
    return (int)scare_init(&self->calibration, &MODEL, self->memory, sizeof self->memory);
}

int host_push(void *sensor, const float *reading, scare_answer *answer, uint32_t now_ms) {
    return (int)scare_calibrate(&((host_sensor *)sensor)->calibration, now_ms, reading, answer);
}
