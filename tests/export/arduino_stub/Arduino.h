/* As much of Arduino's core as a sketch of ours uses: a clock that the test turns, Serial to stdout, Serial1 fed by it. */
#ifndef ARDUINO_H
#define ARDUINO_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include <string>

#define F(text) (text)

extern uint32_t stub_ms;
inline unsigned long millis() { return stub_ms; }
inline void delay(unsigned long ms) { stub_ms += (uint32_t)ms; }

class Stream {
  public:
    void begin(unsigned long) {}
    int available() { return (int)(bytes.size() - taken); }
    int read() { return available() ? (unsigned char)bytes[taken++] : -1; }
    void print(char one) { putchar(one); }
    void print(unsigned long number) { printf("%lu", number); }
    void print(double number, int decimals) { printf("%.*f", decimals, number); }
    void println(const char *text) { puts(text); }
    void feed(const std::string &more) { bytes += more; }

  private:
    std::string bytes;
    size_t taken = 0;
};

extern Stream Serial, Serial1;

#endif
