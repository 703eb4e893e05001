/* The window of a calibration, for the parts of the runtime that learn, store and test. */
#ifndef SCARE_WINDOW_H
#define SCARE_WINDOW_H

#include "scare.h"

/* The scaled number of a channel in a row; the oldest row is 0. */
float scare_window_number(const scare *self, uint32_t channel, uint32_t row);

/* Add a scaled row as the newest one. Nothing but the window changes. */
void scare_window_add(scare *self, const float *row);

#endif
