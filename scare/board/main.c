/* The smallest program that uses a model, so that its size is that of the model.
 * Built with MODEL_HEADER, MODEL (the model's name) or MODEL_CONTENT (that of a blob), MODEL_MEMORY (its bytes) and
 * MODEL_READING (its channels). */
#include MODEL_HEADER
#include "scare.h"

uint32_t board_memory[SCARE_WORDS(MODEL_MEMORY)];
scare board_calibration;

#ifdef MODEL_CONTENT
#define MODEL board_blob.model
scare_blob board_blob;
__attribute__((noinline)) int board_open(void);
int board_open(void) {
    return (int)scare_blob_open_unsigned(&board_blob, MODEL_CONTENT, sizeof MODEL_CONTENT);
}
#endif

int main(void) {
    float reading[MODEL_READING] = {0.0f};
    scare_answer answer;
#ifdef MODEL_CONTENT
    (void)board_open();
#endif
    (void)scare_init(&board_calibration, &MODEL, board_memory, sizeof board_memory);
    return (int)scare_calibrate(&board_calibration, 0, reading, &answer);
}
