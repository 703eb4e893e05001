// Durations in words.
const UNITS = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "";
  const [size, name] = UNITS.find(([size]) => seconds >= size) ?? UNITS.at(-1);
  const count = Number((seconds / size).toFixed(seconds / size < 10 && size > 1 ? 1 : 0));
  return `${count.toLocaleString("en")} ${name}${count === 1 ? "" : "s"}`;
}

// Hours and minutes, as clocks differ: "5 h 30 min".
export function hours(seconds) {
  const minutes = Math.round(Math.abs(seconds) / 60), whole = Math.floor(minutes / 60);
  return [whole && `${whole} h`, (minutes % 60 || !whole) && `${minutes % 60} min`].filter(Boolean).join(" ");
}

export const day = (seconds) => new Date(seconds * 1e3).toLocaleDateString("en", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
