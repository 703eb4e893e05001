/* Flash as the file `flash` of the current folder, mapped: erasing sets bits, writing only clears them. */
#ifndef ESP_PARTITION_H
#define ESP_PARTITION_H

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "esp_err.h"

typedef struct {
    size_t size;
} esp_partition_t;
typedef int esp_partition_mmap_handle_t;
enum { ESP_PARTITION_TYPE_DATA, ESP_PARTITION_SUBTYPE_ANY, ESP_PARTITION_MMAP_DATA };

static unsigned char *stub_flash;

static inline const esp_partition_t *esp_partition_find_first(int type, int subtype, const char *name) {
    static const esp_partition_t partition = {1 << 16};
    return type == ESP_PARTITION_TYPE_DATA && subtype == ESP_PARTITION_SUBTYPE_ANY && !strcmp(name, "scare")
               ? &partition
               : NULL;
}
static inline esp_err_t esp_partition_mmap(const esp_partition_t *self, size_t at, size_t bytes, int kind,
                                           const void **start, esp_partition_mmap_handle_t *handle) {
    int file = open("flash", O_RDWR | O_CREAT, 0600);
    (void)kind;
    *handle = 0;
    if (at || bytes != self->size || file < 0 || ftruncate(file, (off_t)bytes)) return ESP_FAIL;
    stub_flash = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    *start = stub_flash;
    return stub_flash == MAP_FAILED ? ESP_FAIL : ESP_OK;
}
static inline esp_err_t esp_partition_erase_range(const esp_partition_t *self, size_t at, size_t bytes) {
    if (at % 4096 || bytes % 4096 || at + bytes > self->size) return ESP_FAIL;
    memset(stub_flash + at, 0xff, bytes);
    return ESP_OK;
}
static inline esp_err_t esp_partition_write(const esp_partition_t *self, size_t at, const void *piece, size_t bytes) {
    if (at + bytes > self->size) return ESP_FAIL;
    for (size_t i = 0; i < bytes; i++) stub_flash[at + i] &= ((const unsigned char *)piece)[i];
    return ESP_OK;
}

#endif
