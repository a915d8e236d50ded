/** Labels for model calls, in this repository. The published package has `dist` instead. Any thread. */
export * from '../../src/label/label.ts';
