/**
 * Property tests draw the same cases in every run, so that a result depends on the change and not on the draw. SEED=N
 * draws others. Every test file's own process.
 */
import fc from 'fast-check';

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(process.env.SEED ?? 7) });
