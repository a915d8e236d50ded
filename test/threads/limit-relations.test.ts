/** The relations between bounds hold, so that every start passes its check. */

import { it } from 'vitest';
import { assertLimitRelations } from '../../src/threads/limit-relations.ts';

it('the relations between bounds hold', () => {
  assertLimitRelations();
});
