/* Calibrates made-up readings by a model in flash, and asks `scare live` for a newer one every hour.
 * Bring the network up where it says so. Read your own sensor instead of calling ${name}_simulate. */
#include <stdio.h>

#include "esp_http_client.h"
#include "esp_system.h"
#include "esp_timer.h"
#include "freertos/FreeRTOS.h"
#include "freertos/task.h"
#include "nvs_flash.h"

#include "$name.h"
#include "${name}_simulated.h"
#include "scare_slots_esp32.h"

/* The file of this device. Beyond your own network https, with .cert_pem or .crt_bundle_attach of the client. */
#define MODEL_FILE "http://192.168.1.2:8080/v1/blobs/box-01"
#define TOKEN "" /* of the gateway, if it asks for one */
#define ASK_SECONDS 3600
#define WORKS 10 /* values after which a new model is kept */

/* Your public key, which `scare export key --out owner.pem` prints; with zeros no file is taken. */
static const uint8_t owner[32] = {0};

static uint32_t memory[SCARE_WORDS(${upper}_BYTES)]; /* more if later models may be larger */
static scare calibration;
static scare_blob blob;
static scare_slots slots;

/* Take the model in flash, or else the one in the firmware, which needs no signature. */
static scare_status begin_calibration(void) {
    scare_status status = scare_slots_begin(&slots, &blob, &calibration, memory, sizeof memory);
    if (status == SCARE_OK) return status;
    puts(scare_explain(status)); /* no file yet, or a bad one */
    status = scare_blob_open_unsigned(&blob, ${name}_content, sizeof ${name}_content);
    if (status == SCARE_OK) status = scare_init(&calibration, &blob.model, memory, sizeof memory);
    return status == SCARE_OK ? scare_self_test(&calibration, &blob.golden) : status;
}

/* Write the versions that the gateway need not send: the one that runs, then what is in the slots, in use before or
 * refused. Without these a bad file would be fetched again every hour. */
static void print_versions(char *tags, size_t bytes) {
    scare_blob file;
    char version[25];
    scare_blob_version(&blob, version);
    size_t at = (size_t)snprintf(tags, bytes, "\"%s\"", version);
    for (int slot = 0; slot < 2; slot++) {
        if (scare_blob_open_unsigned(&file, slots.content[slot], slots.bytes) != SCARE_OK) continue;
        scare_blob_version(&file, version);
        at += (size_t)snprintf(tags + at, bytes - at, ", \"%s\"", version);
    }
}

/* Receive the body of an answer into the free slot; whether it is there to the end. */
static int receive(esp_http_client_handle_t client) {
    static char piece[1024];
    size_t at = 0;
    int bytes;
    while ((bytes = esp_http_client_read(client, piece, sizeof piece)) > 0) {
        if (!scare_slots_write(&slots, at, piece, (size_t)bytes)) return 0;
        at += (size_t)bytes;
    }
    return bytes == 0 && esp_http_client_is_complete_data_received(client);
}

/* Ask for a newer file; if there is one, restart with it. scare_slots_begin goes back if it does not work. */
static void ask_for_model(void) {
    char tags[3 * 28];
    esp_http_client_config_t config = {.url = MODEL_FILE, .timeout_ms = 10000};
    esp_http_client_handle_t client = esp_http_client_init(&config);
    int received = 0;
    if (!client) return;
    print_versions(tags, sizeof tags);
    esp_http_client_set_header(client, "If-None-Match", tags);
    if (sizeof TOKEN > 1) esp_http_client_set_header(client, "Authorization", "Bearer " TOKEN);
    if (esp_http_client_open(client, 0) == ESP_OK && esp_http_client_fetch_headers(client) >= 0) {
        received = esp_http_client_get_status_code(client) == 200 && receive(client);
    }
    esp_http_client_cleanup(client);
    if (received) {
        scare_status status = scare_slots_switch(&slots);
        puts(status == SCARE_OK ? "taken" : scare_explain(status));
        if (status == SCARE_OK) esp_restart();
    }
}

void app_main(void) {
    ESP_ERROR_CHECK(nvs_flash_init());
    /* Bring the network up here. */
    if (!scare_slots_find(&slots, owner, ${upper}_INPUTS)) {
        puts("there is no partition called scare");
        return;
    }
    scare_status status = begin_calibration();
    puts(status == SCARE_OK ? blob.title : scare_explain(status));
    if (status != SCARE_OK) return;
    TickType_t woken = xTaskGetTickCount();
    int64_t ask_us = 0;
    for (uint32_t number = 0, values = 0;; number++) {
        float row[${upper}_CHANNELS];
        scare_answer answer;
        ${name}_simulate(number, row);
        status = scare_calibrate(&calibration, (uint32_t)(esp_timer_get_time() / 1000), row, &answer);
        if (status == SCARE_OK && ++values == WORKS) scare_slots_confirm(&slots);
        printf("%.6f,%s\n", (double)answer.value, scare_explain(status));
        if (values >= WORKS && esp_timer_get_time() >= ask_us) { /* before, the free slot may be needed to go back */
            ask_us = esp_timer_get_time() + ASK_SECONDS * 1000000LL;
            ask_for_model();
        }
        vTaskDelayUntil(&woken, (TickType_t)((uint64_t)blob.model.step_ms * configTICK_RATE_HZ / 1000));
    }
}
