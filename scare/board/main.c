/* The smallest program that uses a model, so that its size is that of the model.
 * Built with MODEL_HEADER, MODEL (the model's name), MODEL_MEMORY (its bytes) and MODEL_READING (its channels). */
#include MODEL_HEADER
#include "scare.h"

uint32_t board_memory[SCARE_WORDS(MODEL_MEMORY)];
scare board_calibration;

int main(void) {
    float reading[MODEL_READING] = {0.0f};
    scare_answer answer;
    (void)scare_init(&board_calibration, &MODEL, board_memory, sizeof board_memory);
    return (int)scare_calibrate(&board_calibration, 0, reading, &answer);
}
