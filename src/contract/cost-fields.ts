/** What captured turns cost, and how certain that is: the same fields wherever it is told. Data; any thread. */
import { z } from 'zod';

export const costFields = {
  cost_usd: z
    .number()
    .nullable()
    .describe(
      'Dollars for the turns of upstreams, by `GW_PRICES` or by the table that ships; null: no price is known',
    ),
  unpriced_turns: z.int().describe('Turns that `cost_usd` leaves out: their price or tokens are not known'),
  estimated_turns: z
    .int()
    .describe(
      'Turns in `cost_usd` whose price is a guess, or whose tokens are estimated: then it is an estimate',
    ),
};
