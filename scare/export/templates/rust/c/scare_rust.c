/* The Rust side keeps a `scare` in 32 words of a pointer's size. */
#include "scare.h"

typedef char a_scare_fits_into_the_state_of_lib_rs[sizeof(scare) <= 32 * sizeof(void *) ? 1 : -1];
