/** Makes the outcome of a run from a given outcome or from a thrown error. Pure; any thread. */
import { cutText } from './step.ts';

/** The service's maximum length of an outcome. */
const OUTCOME_UNITS = 200;

/** Cuts an outcome to a text that the service accepts; `success` for an empty text, or a value that is not a text. */
export function nameOutcome(outcome: unknown): string {
  const text = typeof outcome === 'string' ? cutText(outcome, OUTCOME_UNITS).toWellFormed() : '';
  return text === '' ? 'success' : text;
}

/**
 * Returns `failure: <name>`: the error's name, or the name of its class if the error has no name or only `Error`. For
 * a thrown value that is not an object, the name is its type (`string`).
 */
export function nameFailure(thrown: unknown): string {
  return cutText(`failure: ${nameOf(thrown)}`, OUTCOME_UNITS).toWellFormed();
}

function nameOf(thrown: unknown): string {
  try {
    if (typeof thrown !== 'object' || thrown === null) return typeof thrown;
    const { name } = thrown as { name?: unknown };
    if (typeof name === 'string' && name !== '' && name !== 'Error') return name;
    return thrown.constructor?.name || 'Error';
  } catch {
    return 'Error';
  }
}
