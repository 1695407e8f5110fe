// SPDX-License-Identifier: MIT
// The source of the other files in this folder (tools/classes_check.sh): a root class, a subclass of it, a subclass of a class
// in another library, a protocol that adopts another one, and categories of both kinds.
__attribute__((objc_root_class)) @interface Root { id isa; int count; } + (id)new; - (int)add:(int)a to:(float)b; @end
@protocol Base - (void)base; @end
@protocol Working <Base> - (void)work:(id)x; + (int)make; @optional - (double)maybe; @end
@interface Engine : Root <Working> - (unsigned char)compileWithQoS:(unsigned)q options:(id)o error:(id *)e; @end
@interface Root (Extra) - (const char *)extra; + (void)extraClass; @end
@implementation Root + (id)new { return 0; } - (int)add:(int)a to:(float)b { return a; } @end
@implementation Engine - (unsigned char)compileWithQoS:(unsigned)q options:(id)o error:(id *)e { return 1; } - (void)work:(id)x {} + (int)make { return 1; } - (void)base {} @end
@implementation Root (Extra) - (const char *)extra { return "x"; } + (void)extraClass {} @end
@interface External @end
@interface Sub : External - (void)sub; @end
@implementation Sub - (void)sub {} @end
@interface External (More) - (long)more; @end
@implementation External (More) - (long)more { return 1; } @end
