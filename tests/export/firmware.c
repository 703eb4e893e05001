/* What the snippets of docs/board.md and docs/sleep.md take from a firmware, then their test. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "model_learning.h"

#define KEPT
#define SAMPLES 4

static scare_learner learner;
static uint64_t clock_now = 40ull << 32; /* far from zero, as a clock with a date is */
static uint32_t published, fed, said, confirmed, rolled_back;
static float last_value;
struct sensor;

static uint64_t clock_ms(void) {
    return clock_now;
}
static uint32_t now_ms(void) {
    return (uint32_t)clock_now;
}
static void publish(const scare_answer *answer) {
    last_value = answer->value;
    __atomic_fetch_add(&published, 1, __ATOMIC_RELAXED);
}
static float read_channel(uint32_t channel) {
    return channel == 0 ? 20.0f : 300.0f;
}
static float volts(uint16_t sample) {
    return (float)sample;
}
static int wait_for_row(const void *sensor, float *reading);
static void feed_watchdog(void) {
    fed++;
}
static void say(const char *what) {
    said += what[0] == 't';
}
static void confirm_image(void) {
    confirmed++;
}
static void roll_back(void) {
    rolled_back++;
}
/* --- */
static __thread uint32_t rows_left;
static int wait_for_row(const void *sensor, float *reading) {
    (void)sensor;
    if (rows_left == 0) rows_left = 41;
    reading[0] = 20.0f + (float)(rows_left % 7);
    reading[1] = 300.0f;
    return --rows_left > 0;
}

static int check(int right, int line) {
    if (!right) printf("line %d of the test\n", line);
    return right ? 0 : 1;
}
#define CHECK(condition) wrong += check(condition, __LINE__)

int main(void) {
    int wrong = 0;
    float reading[MODEL_CHANNELS] = {20.0f, 300.0f}, kept;
    pthread_t threads[SENSORS];

    /* sleep.md: values go on after each sleep */
    wake();
    for (int i = 0; i < 20; i++, clock_now += model.step_ms) measure(reading);
    CHECK(published > 10);
    before_sleep();
    memset(memory, 0xa5, sizeof memory);
    memset(&calibration, 0xa5, sizeof calibration);
    published = 0;
    wake();
    measure(reading);
    CHECK(published == 1);
    kept = last_value;
    clock_now += model.step_ms;

    /* updates: a blob of this model is taken over, another one is not */
    before_sleep();
    first_boot_of_an_image();
    CHECK(confirmed == 1 && rolled_back == 0 && said == 0);
    published = 0;
    measure(reading);
    CHECK(published == 1 && last_value == kept);
    blob[4] ^= 1;
    first_boot_of_an_image();
    CHECK(confirmed == 2 && said == 1);

    /* learning: both blobs in one place */
    CHECK(scare_learn_init(&learner, &model_learning) == SCARE_OK);
    learner.taken = 7;
    store_both();
    CHECK(scare_learn_init(&learner, &model_learning) == SCARE_OK && learner.taken == 0);
    restore_both();
    CHECK(learner.taken == 7);

    /* interrupts: each reading once */
    scare_reset(&calibration);
    published = 0;
    for (int i = 0; i < 20; i++, clock_now += model.step_ms) {
        sensor_interrupt();
        main_loop_step();
        main_loop_step();
    }
    CHECK(published > 10 && published < 20 && calibration.real_bits > 0);

    /* DMA: the mean of half a buffer */
    published = 0;
    for (uint32_t i = 0; i < 40; i++, clock_now += model.step_ms) {
        for (uint32_t j = 0; j < SAMPLES; j++) {
            samples[i % 2][j][0] = (uint16_t)(18 + j % 2 * 4);
            samples[i % 2][j][1] = 300;
        }
        half_is_full(i % 2, now_ms());
    }
    CHECK(published > 30 && last_value == kept);

    /* watchdog: fed unless the calibration is broken */
    supervised_step(now_ms(), reading);
    CHECK(fed == 1);
    calibration.model = NULL;
    supervised_step(now_ms(), reading);
    CHECK(fed == 1);

    /* several sensors, each in a thread */
    CHECK(begin_all() == SCARE_OK);
    published = 0;
    for (uint32_t i = 0; i < SENSORS; i++) CHECK(pthread_create(&threads[i], NULL, sensor_thread, &sensors[i]) == 0);
    for (uint32_t i = 0; i < SENSORS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(published > SENSORS * 30);
    if (!wrong) puts("as the pages say");
    return wrong != 0;
}
