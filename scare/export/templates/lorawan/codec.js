// Payloads of a calibrated sensor, for the payload formatter of a network server (LoRa Alliance TS013): paste the whole
// file into The Things Stack or ChirpStack. Made by scare $version; scare_lorawan.h has the layout.
var TARGET = $target_json, UNIT = $unit_json, PORT = $port, VERSION = $payload_version;
var FLAGS = $flags_json;
var NOTHING = 0xfff;

function half(bits) {
  var exponent = (bits >> 10) & 31, rest = bits & 1023, sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return null;
  return sign * (exponent ? (1024 + rest) * Math.pow(2, exponent - 25) : rest * Math.pow(2, -24));
}

function distance(code) {
  return code === NOTHING ? null : (128 + (code & 127)) * Math.pow(2, (code >> 7) - 21);
}

function decodeUplink(input) {
  var b = input.bytes;
  if (b.length !== $uplink_bytes) return { errors: ["an uplink has $uplink_bytes bytes, not " + b.length] };
  if (b[0] >> 4 !== VERSION) {
    return { errors: ["this codec reads version " + VERSION + "; the device sends version " + (b[0] >> 4)] };
  }
  var scale = Math.pow(10, (b[0] & 15) - 8), flags = (b[6] << 8) | b[7], names = [];
  for (var name in FLAGS) if (flags & FLAGS[name]) names.push(name);
  var value = half((b[1] << 8) | b[2]);
  var below = distance((b[3] << 4) | (b[4] >> 4)), above = distance(((b[4] & 15) << 8) | b[5]);
  var has = value !== null;
  var data = {
    target: TARGET, unit: UNIT, calibrated: has ? value * scale : null,
    low: has && below !== null ? (value - below) * scale : null,
    high: has && above !== null ? (value + above) * scale : null,
    flags: flags, flag_names: names
  };
  return has ? { data: data } : { data: data, warnings: ["there is no value: " + (names.join(", ") || "too few readings")] };
}

function encodeDownlink(input) {
  var data = input.data || {}, every = data.every_seconds || 0;
  for (var key in data) {
    if (key !== "every_seconds" && key !== "reset") return { errors: ["'" + key + "' is none of every_seconds, reset"] };
  }
  if (every !== Math.floor(every) || every < 0 || every > 65535) {
    return { errors: ["every_seconds is a whole number of seconds from 1 to 65535; 0 changes nothing"] };
  }
  return { fPort: PORT, bytes: [VERSION << 4, every >> 8, every & 255, data.reset ? 1 : 0] };
}

function decodeDownlink(input) {
  var b = input.bytes;
  if (b.length !== $downlink_bytes || b[0] !== VERSION << 4) return { errors: ["this is no downlink of version " + VERSION] };
  return { data: { every_seconds: (b[1] << 8) | b[2], reset: (b[3] & 1) === 1 } };
}
