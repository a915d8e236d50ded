/**
 * Property tests draw the same cases in every run, so that results depend only on the code. SEED=N draws other cases.
 * Every test file's own process.
 */
import fc from 'fast-check';

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(process.env.SEED ?? 7) });
