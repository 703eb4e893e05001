/* A client that speaks as much HTTP/1.0 over a socket as an answer of a known length needs. */
#ifndef ESP_HTTP_CLIENT_H
#define ESP_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "esp_err.h"

typedef struct {
    const char *url;
    int timeout_ms;
} esp_http_client_config_t;
typedef struct {
    char host[64], path[128], headers[512];
    int port, socket, status;
    long left;
} *esp_http_client_handle_t;

static inline esp_http_client_handle_t esp_http_client_init(const esp_http_client_config_t *config) {
    esp_http_client_handle_t self = calloc(1, sizeof *self);
    self->socket = -1;
    if (sscanf(config->url, "http://%63[^:]:%d%127s", self->host, &self->port, self->path) != 3) abort();
    return self;
}
static inline esp_err_t esp_http_client_set_header(esp_http_client_handle_t self, const char *name, const char *text) {
    size_t at = strlen(self->headers);
    snprintf(self->headers + at, sizeof self->headers - at, "%s: %s\r\n", name, text);
    return ESP_OK;
}
static inline esp_err_t esp_http_client_open(esp_http_client_handle_t self, int bytes) {
    struct sockaddr_in place = {.sin_family = AF_INET};
    char request[1024];
    place.sin_port = htons((uint16_t)self->port);
    place.sin_addr.s_addr = inet_addr(self->host);
    self->socket = socket(AF_INET, SOCK_STREAM, 0);
    snprintf(request, sizeof request, "GET %s HTTP/1.0\r\nHost: %s:%d\r\n%s\r\n", self->path, self->host, self->port,
             self->headers);
    if (bytes || connect(self->socket, (struct sockaddr *)&place, sizeof place)) return ESP_FAIL;
    return write(self->socket, request, strlen(request)) > 0 ? ESP_OK : ESP_FAIL;
}
static inline long esp_http_client_fetch_headers(esp_http_client_handle_t self) {
    char line[512];
    for (size_t at = 0; at < sizeof line - 1 && read(self->socket, line + at, 1) == 1; at++) {
        if (line[at] != '\n') continue;
        line[at + 1] = 0;
        if (at < 2) return self->left;
        if (!strncmp(line, "HTTP/", 5)) self->status = atoi(strchr(line, ' '));
        if (!strncasecmp(line, "content-length:", 15)) self->left = atol(line + 15);
        at = (size_t)-1;
    }
    return -1;
}
static inline int esp_http_client_get_status_code(esp_http_client_handle_t self) {
    return self->status;
}
static inline int esp_http_client_read(esp_http_client_handle_t self, char *piece, int bytes) {
    long got = self->left ? read(self->socket, piece, (size_t)bytes) : 0;
    self->left -= got > 0 ? got : 0;
    return (int)got;
}
static inline int esp_http_client_is_complete_data_received(esp_http_client_handle_t self) {
    return self->left == 0;
}
static inline esp_err_t esp_http_client_cleanup(esp_http_client_handle_t self) {
    close(self->socket);
    free(self);
    return ESP_OK;
}

#endif
