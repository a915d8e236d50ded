/**
 * A part of a capture database. It lists only some records, but can read every record by id. Pure; any process.
 */
import type { ExchangeSource, ListedExchange } from './exchange-source.ts';

export abstract class SourcePart implements ExchangeSource {
  protected readonly whole: ExchangeSource;

  constructor(whole: ExchangeSource) {
    this.whole = whole;
  }

  abstract summaries(filter?: { run_id?: string; from_id?: number }): Iterable<ListedExchange>;

  exchange(id: number): ReturnType<ExchangeSource['exchange']> {
    return this.whole.exchange(id);
  }

  body(...parameters: Parameters<ExchangeSource['body']>): ReturnType<ExchangeSource['body']> {
    return this.whole.body(...parameters);
  }

  copy(id: number): ReturnType<ExchangeSource['copy']> {
    return this.whole.copy(id);
  }
}
