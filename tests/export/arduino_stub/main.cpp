/* Runs a sketch: for every line of stdin, its bytes (hexadecimal) come in on Serial1, then `loop` is called once. The
 * argument is how many milliseconds pass from one line to the next, beside those the sketch waits. */
#include <stdlib.h>

#include <iostream>

#include <Arduino.h>

uint32_t stub_ms;
Stream Serial, Serial1;

#include SKETCH

int main(int, char **arguments) {
    setup();
    for (std::string line; std::getline(std::cin, line);) {
        stub_ms += (uint32_t)atol(arguments[1]);
        for (size_t at = 0; at + 1 < line.size(); at += 2) {
            Serial1.feed(std::string(1, (char)strtol(line.substr(at, 2).c_str(), nullptr, 16)));
        }
        loop();
    }
}
