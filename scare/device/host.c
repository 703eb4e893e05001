/* A model on this computer: many windows in one call. Built with MODEL_HEADER and MODEL (the model's name). */
#include MODEL_HEADER

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT
#endif

EXPORT const scare_model *host_model(void);
EXPORT void host_run(const unsigned char *windows, unsigned char *scratch, float *scaled, size_t window_bytes,
                     size_t scratch_bytes, size_t count);

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
