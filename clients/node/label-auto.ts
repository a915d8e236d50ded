/** Labels for all model calls of a process, in this repository. The published package has `dist` instead. Any thread. */
import '../../src/label/auto.ts';
