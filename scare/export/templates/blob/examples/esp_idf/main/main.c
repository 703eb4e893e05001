/* Calibrates made-up readings by a model in flash, and takes a new one by HTTP:
 *     curl --data-binary @new.blob http://DEVICE/blob
 * Bring the network up where it says so. Read your own sensor instead of calling ${name}_simulate. */
#include <stdio.h>

#include "esp_http_server.h"
#include "esp_system.h"
#include "esp_timer.h"
#include "freertos/FreeRTOS.h"
#include "freertos/task.h"
#include "nvs_flash.h"

#include "$name.h"
#include "${name}_simulated.h"
#include "scare_slots_esp32.h"

/* Your public key, which `scare export key --out owner.pem` prints; with zeros no file is taken. */
static const uint8_t owner[32] = {0};

static uint32_t memory[SCARE_WORDS(${upper}_BYTES)]; /* more if later models may be larger */
static scare calibration;
static scare_blob blob;
static scare_slots slots;

/* Write the body into the free slot and use it from the next start on. */
static esp_err_t take_blob(httpd_req_t *request) {
    char piece[512];
    size_t at = 0;
    while (at < request->content_len) {
        size_t left = request->content_len - at;
        int bytes = httpd_req_recv(request, piece, left < sizeof piece ? left : sizeof piece);
        if (bytes <= 0 || !scare_slots_write(&slots, at, piece, (size_t)bytes)) return ESP_FAIL;
        at += (size_t)bytes;
    }
    scare_status status = scare_slots_switch(&slots);
    httpd_resp_sendstr(request, status == SCARE_OK ? "taken" : scare_explain(status));
    if (status == SCARE_OK) esp_restart();
    return ESP_OK;
}

static void serve(void) {
    static const httpd_uri_t uri = {.uri = "/blob", .method = HTTP_POST, .handler = take_blob};
    httpd_config_t config = HTTPD_DEFAULT_CONFIG();
    httpd_handle_t server;
    config.stack_size = 8192;
    if (httpd_start(&server, &config) == ESP_OK) httpd_register_uri_handler(server, &uri);
}

void app_main(void) {
    ESP_ERROR_CHECK(nvs_flash_init());
    /* Bring the network up here. */
    if (!scare_slots_find(&slots, owner, ${upper}_INPUTS)) {
        puts("there is no partition called scare");
        return;
    }
    serve();
    scare_status status = scare_slots_begin(&slots, &blob, &calibration, memory, sizeof memory);
    if (status != SCARE_OK) { /* no file yet, or a bad one: the model in the firmware, which needs no signature */
        puts(scare_explain(status));
        status = scare_blob_open_unsigned(&blob, ${name}_content, sizeof ${name}_content);
        if (status == SCARE_OK) status = scare_init(&calibration, &blob.model, memory, sizeof memory);
        if (status == SCARE_OK) status = scare_self_test(&calibration, &blob.golden);
    }
    puts(status == SCARE_OK ? blob.title : scare_explain(status));
    if (status != SCARE_OK) return;
    TickType_t woken = xTaskGetTickCount();
    for (uint32_t number = 0, values = 0;; number++) {
        float row[${upper}_CHANNELS];
        scare_answer answer;
        ${name}_simulate(number, row);
        status = scare_calibrate(&calibration, (uint32_t)(esp_timer_get_time() / 1000), row, &answer);
        if (status == SCARE_OK && ++values == 10) scare_slots_confirm(&slots); /* it works: keep it */
        printf("%.6f,%s\n", (double)answer.value, scare_explain(status));
        vTaskDelayUntil(&woken, (TickType_t)((uint64_t)blob.model.step_ms * configTICK_RATE_HZ / 1000));
    }
}
