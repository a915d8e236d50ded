/** How wrong a student may be that was wrong so often among so many. Pure; analysis. */

import jstat from 'jstat';

const CONFIDENCE = 0.95;

/**
 * Upper bound of the true share of errors, one-sided at 95 % (Clopper and Pearson, Biometrika 26, 1934): exact for
 * independent steps; steps of one run are not quite that.
 * @param served at least 1
 */
export function boundError(errors: number, served: number): number {
  return errors >= served ? 1 : jstat.beta.inv(CONFIDENCE, errors + 1, served - errors);
}
