/* Opens blobs from a file, each a length and its bytes, and runs those that are taken: the self-test, and readings, some
 * of them wild, with a pause in which the state is stored and restored. Prints how many were taken. */
#include "scare_blob.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 16, ROWS = 12 }; /* bytes of memory that a device has; readings */

static void calibrate(scare *calibration, const scare_model *model) {
    float *reading = malloc(model->channels * sizeof *reading);
    uint8_t *state = malloc(MOST);
    scare_answer answer;
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t c = 0; c < model->channels; c++) reading[c] = row == 5 ? 1e30f : 20.0f * (float)(row + c + 1);
        scare_status status = scare_calibrate(calibration, row * model->step_ms, reading, &answer);
        if ((status == SCARE_OK) != (isfinite(answer.value) != 0)) exit(5);
        if (row == 8 && scare_store(calibration, row * (uint64_t)model->step_ms, state, MOST) == SCARE_OK &&
            scare_restore(calibration, row * (uint64_t)model->step_ms, state, MOST) != SCARE_OK)
            exit(6);
    }
    free(state);
    free(reading);
}

int main(int count, char **words) {
    FILE *file = count == 2 ? fopen(words[1], "rb") : NULL;
    uint32_t bytes, taken = 0;
    if (!file) return 2;
    while (fread(&bytes, sizeof bytes, 1, file) == 1) {
        unsigned char *content = malloc(bytes ? bytes : 1); /* exactly: one byte beyond is an error */
        scare_blob *blob = malloc(sizeof *blob);
        uint32_t *memory = malloc(MOST);
        scare calibration;
        memset(memory, 0xa5, MOST);
        if (fread(content, 1, bytes, file) != bytes) return 3;
        if (scare_blob_open_unsigned(blob, content, bytes) == SCARE_OK) {
            taken++;
            if (strlen(blob->title) >= blob->bytes) return 4;
            if (scare_init(&calibration, &blob->model, memory, MOST) == SCARE_OK) {
                (void)scare_self_test(&calibration, &blob->golden);
                (void)scare_reset(&calibration);
                calibrate(&calibration, &blob->model);
            }
        }
        free(memory);
        free(blob);
        free(content);
    }
    fclose(file);
    printf("%u\n", taken);
    return 0;
}
