/* Slots for blobs in the flash of an ESP32 of any kind, for ESP-IDF and for Arduino: the halves of the data partition
 * "scare", which memory-mapped reading makes a pointer, and the word in NVS. Include it in one source; call
 * nvs_flash_init before (Arduino does). partitions.csv: `scare, data, 0x40, , 64K,`. */
#ifndef SCARE_SLOTS_ESP32_H
#define SCARE_SLOTS_ESP32_H

#include <esp_partition.h>
#include <nvs.h>

#include "scare_slots.h"

static const esp_partition_t *scare_slots_partition;

static uint32_t scare_slots_load(void) {
    uint32_t word = 0u;
    nvs_handle_t store;
    if (nvs_open("scare", NVS_READONLY, &store) == ESP_OK) {
        (void)nvs_get_u32(store, "slots", &word);
        nvs_close(store);
    }
    return word;
}

static void scare_slots_save(uint32_t word) {
    nvs_handle_t store;
    if (nvs_open("scare", NVS_READWRITE, &store) == ESP_OK) {
        if (nvs_set_u32(store, "slots", word) == ESP_OK) (void)nvs_commit(store);
        nvs_close(store);
    }
}

/* Find the slots; 0 if there is no such partition. */
static inline int scare_slots_find(scare_slots *slots, const uint8_t *key, uint32_t inputs) {
    esp_partition_mmap_handle_t handle;
    const void *start;
    scare_slots_partition = esp_partition_find_first(ESP_PARTITION_TYPE_DATA, ESP_PARTITION_SUBTYPE_ANY, "scare");
    if (!scare_slots_partition || esp_partition_mmap(scare_slots_partition, 0, scare_slots_partition->size,
                                                     ESP_PARTITION_MMAP_DATA, &start, &handle) != ESP_OK) {
        return 0;
    }
    slots->bytes = scare_slots_partition->size / 2u;
    slots->content[0] = start;
    slots->content[1] = (const uint8_t *)start + slots->bytes;
    slots->key = key;
    slots->inputs = inputs;
    slots->older = 0;
    slots->load = scare_slots_load;
    slots->save = scare_slots_save;
    return 1;
}

/* Write a piece of a file into the slot not in use; the first piece, at 0, erases it. 1, or 0 if that is not possible. */
static inline int scare_slots_write(const scare_slots *slots, size_t at, const void *piece, size_t bytes) {
    size_t start = scare_slots_free(slots) * slots->bytes;
    if (at > slots->bytes || bytes > slots->bytes - at) return 0;
    if (at == 0u && esp_partition_erase_range(scare_slots_partition, start, slots->bytes) != ESP_OK) return 0;
    return esp_partition_write(scare_slots_partition, start + at, piece, bytes) == ESP_OK;
}

#endif
