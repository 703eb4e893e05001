// Flags as people read them.
export const flagNames = (flags, meanings) =>
  Object.entries(meanings).filter(([bit]) => flags & Number(bit)).map(([, [name]]) => name);
