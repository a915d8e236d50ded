/** Fisher's exact test of two groups. Pure; teaching. */

import jstat from 'jstat';

interface Counted {
  all: number;
  /** How many members of the group have the property. */
  having: number;
}

/**
 * The chance that at least as many members of the first group have a property as do have it, if the property does not
 * depend on the group.
 */
export function chanceOfMore(group: Counted, other: Counted): number {
  const all = group.all + other.all;
  const having = group.having + other.having;
  return 1 - jstat.hypgeom.cdf(group.having - 1, all, having, group.all);
}
