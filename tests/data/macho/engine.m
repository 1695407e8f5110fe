// SPDX-License-Identifier: MIT
// An artificial framework with classes that the ane driver uses, for 'propane classes --driver'. One method is missing, one
// has another type, and two are in a category and a superclass.
typedef struct __IOSurface *IOSurfaceRef;
__attribute__((objc_root_class)) @interface Root { id isa; } - (id)modelAttributes; @end
@implementation Root - (id)modelAttributes { return 0; } @end
@interface _ANEDeviceInfo : Root + (_Bool)hasANE; + (id)aneArchitectureType; + (unsigned)numANECores; + (id)buildVersion; @end
@implementation _ANEDeviceInfo + (_Bool)hasANE { return 1; } + (id)aneArchitectureType { return 0; } + (unsigned)numANECores { return 16; } + (id)buildVersion { return 0; } @end
@interface _ANEIOSurfaceObject : Root + (id)objectWithIOSurface:(IOSurfaceRef)s; @end
@implementation _ANEIOSurfaceObject + (id)objectWithIOSurface:(IOSurfaceRef)s { return 0; } @end
@interface _ANERequest : Root @end
@implementation _ANERequest + (id)requestWithInputs:(id)a inputIndices:(id)b outputs:(id)c outputIndices:(id)d weightsBuffer:(id)e perfStats:(id)f procedureIndex:(id)g { return 0; } @end
@interface _ANEInMemoryModelDescriptor : Root @end
@implementation _ANEInMemoryModelDescriptor + (id)modelWithMILText:(id)a weights:(id)b optionsPlist:(id)c { return 0; } @end
@interface _ANEInMemoryModel : Root @end
@implementation _ANEInMemoryModel
+ (id)inMemoryModelWithDescriptor:(id)d { return 0; }
- (id)hexStringIdentifier { return 0; }
- (_Bool)compileWithQoS:(unsigned)q options:(id)o error:(id *)e { return 1; }
- (_Bool)loadWithQoS:(unsigned)q options:(id)o error:(id *)e { return 1; }
- (_Bool)evaluateWithQoS:(unsigned)q options:(id)o request:(id)r error:(id *)e { return 1; }
@end
@interface _ANEModel : Root @end
@implementation _ANEModel + (id)modelAtURL:(id)u key:(id)k { return 0; } @end
@interface _ANEClient : Root @end
@implementation _ANEClient
+ (id)sharedConnection { return 0; }
- (_Bool)compileModel:(id)m options:(id)o qos:(double)q error:(id *)e { return 1; }
- (_Bool)loadModel:(id)m options:(id)o qos:(unsigned)q error:(id *)e { return 1; }
- (_Bool)evaluateWithModel:(id)m options:(id)o request:(id)r qos:(unsigned)q error:(id *)e { return 1; }
@end
@interface _ANEClient (Private) @end
@implementation _ANEClient (Private) - (_Bool)unloadModel:(id)m options:(id)o qos:(unsigned)q error:(id *)e { return 1; } @end
