/** How many stored exchanges an answer about captured traffic cannot count yet. Data; any thread. */
import { z } from 'zod';

export const notIndexed = z
  .int()
  .describe(
    'Stored exchanges that are not indexed yet, and therefore not counted, whichever period they belong to',
  );
