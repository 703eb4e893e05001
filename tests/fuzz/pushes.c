/* Pushes a file of readings, each a time and a number a channel, one after the other; a value without a status that it
 * is one, or the other way round, ends it. Prints how many values there were. Built with MODEL_HEADER, MODEL and
 * MODEL_MEMORY. */
#include MODEL_HEADER
#include "scare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
    FILE *file = count == 2 ? fopen(words[1], "rb") : NULL;
    uint32_t *memory = malloc(MODEL_MEMORY);
    float *reading = malloc(MODEL.channels * sizeof *reading);
    scare calibration;
    uint32_t now;
    int values = 0;
    if (!file || !memory || !reading || scare_init(&calibration, &MODEL, memory, MODEL_MEMORY) != SCARE_OK) return 2;
    while (fread(&now, sizeof now, 1, file) == 1 &&
           fread(reading, sizeof *reading, MODEL.channels, file) == MODEL.channels) {
        float calibrated = 0.0f;
        scare_status status = scare_push(&calibration, now, reading, &calibrated);
        if ((status == SCARE_OK) != (isfinite(calibrated) != 0)) return 3;
        values += status == SCARE_OK;
    }
    fclose(file);
    free(reading);
    free(memory);
    printf("%d\n", values);
    return 0;
}
