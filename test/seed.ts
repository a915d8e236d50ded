/**
 * Property tests draw the same cases in every run, so that a run is green for what changed and not for what was drawn.
 * SEED=N draws others. Every test file's own process.
 */
import fc from 'fast-check';

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(process.env.SEED ?? 7) });
