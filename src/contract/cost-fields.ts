/**
 * The cost of captured turns and how certain it is: the same fields in every answer that has them. Data; any
 * thread.
 */
import { z } from 'zod';

export const costFields = {
  cost_usd: z
    .number()
    .nullable()
    .describe(
      'Cost in dollars of the turns that upstreams answered, by `GW_PRICES` or the built-in price table; null: no price is known',
    ),
  unpriced_turns: z
    .int()
    .describe(
      'Turns that `cost_usd` leaves out, because their price (of the model, or at their tier) or tokens are unknown',
    ),
  estimated_turns: z
    .int()
    .describe(
      'Turns in `cost_usd` with a guessed price or estimated tokens. Above 0, `cost_usd` is an estimate',
    ),
};
