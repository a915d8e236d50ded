/** Makes the report about an exchange whose content cannot be stored. Capture process. */
import type { SetApart } from '../../domain/capture-cause.ts';
import type { CapturedExchange } from '../../domain/exchange.ts';
import { maskText } from '../../redaction/mask.ts';

/** Maximum number of stack lines in the report. */
const STACK_LINES = 4;
const TOLD_PATH_CHARACTERS = 200;

/** Describes an exchange without its content. @param thrown the error of the attempt to store the exchange */
export function describeSetApart(exchange: CapturedExchange, thrown: unknown): SetApart {
  const { name = typeof thrown, stack = '' } = thrown instanceof Error ? thrown : {};
  return {
    cause: 'unstorable',
    provider: exchange.provider,
    is_turn: exchange.kind === 'turn',
    aborted: exchange.aborted,
    // A path may contain a credential, so it is masked.
    path: maskText(exchange.path.slice(0, TOLD_PATH_CHARACTERS)),
    bytes: exchange.request_bytes + exchange.response_bytes,
    error: name,
    at: stack
      .split('\n')
      .filter((line) => /^ +at /.test(line))
      .slice(0, STACK_LINES)
      .map((line) => line.trim()),
  };
}
