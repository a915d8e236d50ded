/**
 * The part of `@aws-sdk/client-s3` that this folder uses, so that a checkout without the package can be checked, too. The
 * package's own declarations accept the same code. Types.
 */
declare module '@aws-sdk/client-s3' {
  interface Place {
    Bucket: string;
    Key: string;
  }
  interface PutInput extends Place {
    Body: Uint8Array;
    ContentLength: number;
    ChecksumSHA256: string;
  }
  interface ListInput {
    Bucket: string;
    Prefix: string;
    MaxKeys: number;
    ContinuationToken?: string;
  }
  interface DeleteInput {
    Bucket: string;
    Delete: { Objects: { Key: string }[]; Quiet: boolean };
  }
  interface GetOutput {
    Body?: { transformToByteArray(): Promise<Uint8Array> };
    ContentLength?: number;
  }
  interface ListOutput {
    Contents?: { Key?: string; LastModified?: Date }[];
    IsTruncated?: boolean;
    NextContinuationToken?: string;
  }
  interface DeleteOutput {
    Errors?: { Code?: string }[];
  }
  /** Tells the answers of the commands apart. */
  const answer: unique symbol;
  class Command<Input, Output> {
    constructor(input: Input);
    readonly [answer]: Output;
  }
  export class PutObjectCommand extends Command<PutInput, object> {}
  export class GetObjectCommand extends Command<Place, GetOutput> {}
  export class ListObjectsV2Command extends Command<ListInput, ListOutput> {}
  export class DeleteObjectsCommand extends Command<DeleteInput, DeleteOutput> {}
  export class S3Client {
    constructor(options: {
      region?: string;
      endpoint?: string;
      forcePathStyle?: boolean;
      maxAttempts: number;
      requestChecksumCalculation: 'WHEN_REQUIRED' | 'WHEN_SUPPORTED';
      requestHandler: { connectionTimeout: number; socketTimeout: number };
    });
    send<Output>(command: { readonly [answer]: Output }): Promise<Output>;
    destroy(): void;
  }
}
