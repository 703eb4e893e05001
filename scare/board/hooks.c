/* Hooks that Unicorn calls while a virtual board runs. They count how often execution went from one block of code to
 * the next, and how deep the stack became. A call that never returns is stopped after `left` blocks, because Unicorn's
 * own limit is a thread that polls the clock. In C because they are called for every block; virtual.py reads the
 * result. */
#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT
#endif

enum { EDGES = 1 << 16 };

/* An edge from one block to the next, and how often it was taken. It keeps its place in the table from run to run. */
typedef struct {
    uint32_t from, from_size, to, to_size;
    uint64_t count;
} edge;

typedef struct {
    edge *edges;
    uint32_t used, from, from_size, lowest, stack_pointer; /* the last is Unicorn's number of the register */
    uint64_t left;
    int (*read_register)(void *machine, int name, void *value);
    int (*stop)(void *machine);
} record;

EXPORT void enter_block(void *machine, uint64_t address, uint32_t size, void *data);
EXPORT void lower_stack(void *machine, uint64_t address, uint32_t size, void *data);

static edge *find(record *self, uint32_t to, uint32_t to_size) {
    uint32_t place = (self->from * 0x9E3779B1u + to * 0x85EBCA77u) >> 16;
    for (;; place = (place + 1) % EDGES) {
        edge *here = &self->edges[place];
        if (here->to_size == 0) {
            if (self->used == EDGES - 1) return here;
            *here = (edge){self->from, self->from_size, to, to_size, 0};
            self->used++;
        }
        if (here->from == self->from && here->to == to && here->from_size == self->from_size &&
            here->to_size == to_size)
            return here;
    }
}

void enter_block(void *machine, uint64_t address, uint32_t size, void *data) {
    record *self = data;
    if (self->left == 0) {
        self->stop(machine);
        return;
    }
    self->left--;
    find(self, (uint32_t)address, size)->count++;
    self->from = (uint32_t)address;
    self->from_size = size;
}

void lower_stack(void *machine, uint64_t address, uint32_t size, void *data) {
    record *self = data;
    uint32_t pointer = 0;
    (void)address;
    (void)size;
    self->read_register(machine, (int)self->stack_pointer, &pointer);
    if (pointer < self->lowest) self->lowest = pointer;
}
