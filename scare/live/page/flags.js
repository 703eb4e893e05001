// The names of the flags that are set.
export const flagNames = (flags, meanings) =>
  Object.entries(meanings).filter(([bit]) => flags & Number(bit)).map(([, [name]]) => name);
